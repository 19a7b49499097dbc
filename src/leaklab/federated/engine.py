"""Federated training of a whole sweep: all replicates (seeds x rates) and their clients advance together."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from leaklab.data.augmentations.base import Augmentation
from leaklab.data.dataset import Dataset
from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated import checkpoint as checkpoints
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.checkpoint import State
from leaklab.federated.evaluation import Evaluation, evaluate
from leaklab.federated.local import local_training
from leaklab.federated.memory import keep_freed_memory
from leaklab.federated.network import TrainableNetwork, trainable
from leaklab.federated.one_by_one import OneByOne
from leaklab.federated.optimizers.base import Optimizer
from leaklab.federated.population import Population
from leaklab.federated.sweep import Piece, pieces
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.canonical import canonical_json
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec

Track = Callable[[Iterable[int], int, str], Iterable[int]]

# models per pass: on CPUs more parameters, or the activations of more convolutional models, fall out of the cache
CPU_PARAMETERS, CPU_CONVOLUTIONAL, GPU_CHUNK = 1_000_000, 6, 1024


@dataclass(frozen=True)
class Sweep:
    """The result of a training job.

    Attributes:
        table: one row per replicate and evaluated round: replicate, seed, rate_0 ... (as in the spec), round (rounds
            done), accuracy (percent) and loss on every part that the spec evaluates (test_accuracy, train_loss ...),
            diverged, reached (with a goal), steps (of a client so far); its last row reached the goal or is the last.
        weights: final global weights and running statistics by name, [R, ...].
        diverged: number of replicates that were frozen at their last finite weights.
        clipped_clients: clients for whom the defense cut a value.
        client_steps: optimiser steps of all clients that this call executed.
        training_seconds: their wall time, evaluation aside.
    """

    table: pd.DataFrame
    weights: dict[str, Tensor]
    diverged: int
    clipped_clients: int
    client_steps: int
    training_seconds: float


def train(
    spec: TrainSpec,
    dataset: Dataset,
    clients: list[Tensor],
    *,
    chunk: int | None = None,
    device: str = "cpu",
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 120.0,
    track: Track = lambda rounds, total, label: rounds,
) -> Sweep:
    """Train a sweep from its first round or from its checkpoint.

    A replicate whose loss or weights stop being finite is frozen at its last finite global weights and marked as
    diverged; one that reaches the spec's goal stops there; the others are not touched.

    Args:
        spec: what to train.
        dataset: images are normalised with its mean and std.
        clients: positions in the training part, one tensor a client.
        chunk: models that train together; changes the speed only. None chooses by model and device.
        device: ``cpu`` or ``cuda``.
        checkpoint: file to go on from and to save to; the caller removes it at the end.
        checkpoint_seconds: least time between two saves.
        track: wraps the loop over rounds (iterable, total, label), e.g. in a progress bar.

    Raises:
        UserError: the spec does not fit the dataset or the partition, or names an unknown plug-in or layer.
    """
    keep_freed_memory()
    federation = _Federation(spec, dataset, clients, chunk, torch.device(device))
    state = checkpoints.resume(checkpoint, federation.identity, federation.device) or federation.first_state()
    saved = time.monotonic()
    last = spec.rounds if spec.until is None else spec.until
    for index in track(range(state.round, last), last - state.round, "rounds"):
        state = federation.next_state(state, index)
        if spec.goal is not None and not state.running.any():
            break
        if checkpoint is not None and time.monotonic() - saved >= checkpoint_seconds:
            checkpoints.save(checkpoint, state, federation.identity)
            saved = time.monotonic()
    return Sweep(
        table=pd.DataFrame(state.rows),
        weights={name: value.cpu() for name, value in state.weights.items()},
        diverged=int(state.diverged.sum()),
        clipped_clients=federation.clipped_clients(),
        client_steps=federation.client_steps,
        training_seconds=federation.training_seconds,
    )


class _Federation:
    """The parts of a sweep that do not change from round to round, and counters of the work done."""

    def __init__(
        self, spec: TrainSpec, dataset: Dataset, clients: list[Tensor], chunk: int | None, device: torch.device
    ) -> None:
        self.spec, self.device = spec, device
        self._dtype = getattr(torch, spec.dtype)
        self._shape, self._num_classes = dataset.shape, dataset.num_classes
        self._model: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
        self._defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
        self._schedule = plugins.load("federated/schedules", spec.schedule.name, spec.schedule.settings)
        self._optimizer: Optimizer = plugins.load("federated/optimizers", spec.optimizer.name, spec.optimizer.settings)
        self._augmentation: Augmentation = plugins.load(
            "data/augmentations", spec.augmentation.name, spec.augmentation.settings
        )
        network = self._model.build(self._shape, self._num_classes)
        self._refuse_what_only_captures_do(network)
        self._network = trainable(network, self._shape, device)
        self._chunk = chunk or _default_chunk(network, self._network, device)

        self._population = Population.of(spec, dataset, clients, device)
        test_images = dataset.normalised(dataset.test_images.to(device), self._dtype)
        self._parts = {
            "test": (test_images, dataset.test_labels.to(device)),
            "train": (self._population.images, self._population.labels),
        }
        self.identity = {"spec": canonical_json(spec), "data": self._fingerprint()}
        self.client_steps, self.training_seconds = 0, 0.0

    def first_state(self) -> State:
        """Return the initial weights: one draw a seed, the same for all its settings."""
        settings = len(self.spec.rates)
        networks = [
            self._model.initialised(self._shape, self._num_classes, seed, self._dtype) for seed in self.spec.seeds
        ]
        weights = {
            name: torch.stack([network.state_dict()[name] for network in networks]).repeat_interleave(settings, 0)
            for name in networks[0].state_dict()
        }
        replicates = settings * len(networks)
        return State(
            round=0,
            weights={name: value.to(self.device) for name, value in weights.items()},
            diverged=torch.zeros(replicates, dtype=torch.bool, device=self.device),
            reached=torch.zeros(replicates, dtype=torch.bool, device=self.device),
            steps=torch.zeros(replicates, dtype=torch.int64, device=self.device),
            rows=[],
        )

    def next_state(self, state: State, index: int) -> State:
        """Do round ``index`` (from 0) and evaluate if the spec asks for it."""
        started = time.perf_counter()
        averaged, finite = self._average(state, index)
        learned = finite & state.running
        weights = {name: _where(learned, averaged[name], before) for name, before in state.weights.items()}
        steps = state.steps + learned * self.spec.local_steps
        self.training_seconds += time.perf_counter() - started
        diverged = ~finite & ~state.reached | state.diverged
        after = State(index + 1, weights, diverged, state.reached, steps, state.rows)
        every = self.spec.evaluate_every
        due = after.round in (self.spec.rounds, self.spec.until) or (every > 0 and after.round % every == 0)
        return self._evaluated(after) if due else after

    def clipped_clients(self) -> int:
        """Return for how many clients the defense cut a value."""
        people = self._population
        visits = [Visit(self.spec.seeds[0], client, 0, held) for client, held in enumerate(people.samples)]
        return sum(self._defense.clipped(people.context(visit, 0, 1.0)) for visit in visits)

    def _average(self, state: State, index: int) -> tuple[dict[str, Tensor], Tensor]:
        """Return the clients' averaged weights [R, ...] and which replicates are finite [R]."""
        total = {name: torch.zeros_like(value) for name, value in state.weights.items()}
        finite = torch.ones_like(state.diverged)
        settings = len(self.spec.rates)
        running = state.running.view(-1, settings).any(1).tolist()
        parts = [part for part in self._population.parts(index) if running[part.seed_index]]
        for piece in pieces(parts, settings, self._chunk, self.spec.batch_size):
            replicates = [r for part in piece.parts for r in piece.replicates(part, settings)]
            result = local_training(
                self._network,
                {name: value[replicates] for name, value in state.weights.items()},
                self._batches(piece),
                self._contexts(piece, index),
                self._defense,
                optimizer=self._optimizer,
                weight_decay=self.spec.weight_decay,
                build=partial(self._model.build, self._shape, self._num_classes),
            )
            self.client_steps += result.rates.numel()
            learned = result.losses.isfinite().all(1)
            width = piece.last - piece.first
            for number, part in enumerate(piece.parts):
                rows, models = piece.replicates(part, settings), slice(number * width, (number + 1) * width)
                finite[rows.start : rows.stop] &= learned[models]
                for name, value in total.items():
                    value[rows.start : rows.stop].add_(result.weights[name][models], alpha=part.weight)
        for value in total.values():
            finite &= value.flatten(1).isfinite().all(1)
        return total, finite

    def _batches(self, piece: Piece) -> Iterator[Batch]:
        people, spec = self._population, self.spec
        visits = [part.visit for part in piece.parts]
        dropouts, augmentation = self._network.dropouts, self._augmentation
        return batch_stream(
            people.images, people.labels, visits, dropouts, spec.local_steps, spec.batch_size, augmentation
        )

    def _contexts(self, piece: Piece, index: int) -> list[ClientContext]:
        factor = self._schedule.factor(index, self.spec.rounds)
        return [
            self._population.context(part.visit, setting, factor)
            for part in piece.parts
            for setting in range(piece.first, piece.last)
        ]

    def _fingerprint(self) -> str:
        people = self._population
        tensors = [people.images, people.labels, *self._parts["test"], *people.samples]
        return checkpoints.fingerprint(tensors)

    def _evaluated(self, state: State) -> State:
        shown = (~state.reached).nonzero().flatten().tolist()
        weights = {name: value[shown] for name, value in state.weights.items()}
        parts: tuple[str, ...] = self.spec.evaluate
        found = {part: evaluate(self._network, weights, *self._parts[part], self._chunk) for part in parts}
        diverged, reached = state.diverged.clone(), state.reached.clone()
        rows = []
        for place, replicate in enumerate(shown):
            numbers = _numbers(found, place)
            diverged[replicate] |= not all(isfinite(number) for number in numbers.values())
            reached[replicate] = self._reaches(numbers) and not diverged[replicate]
            rows.append({
                "replicate": replicate,
                "seed": self.spec.seeds[replicate // len(self.spec.rates)],
                **self._rate_columns(replicate % len(self.spec.rates)),
                "round": state.round,
                **numbers,
                "diverged": bool(diverged[replicate]),
                **({"reached": bool(reached[replicate])} if self.spec.goal else {}),
                "steps": int(state.steps[replicate]),
            })  # fmt: skip
        return State(state.round, state.weights, diverged, reached, state.steps, state.rows + rows)

    def _reaches(self, numbers: Mapping[str, float]) -> bool:
        goal = self.spec.goal
        if goal is None:
            return False
        if goal.metric not in numbers:
            raise UserError(f"goal.metric is {goal.metric}: name its part under 'evaluate'")
        return numbers[goal.metric] >= goal.value

    def _rate_columns(self, setting: int) -> dict[str, float | None]:
        """Return the setting's rates as given; a setting with one rate for all leaves the other columns empty."""
        width, given = max(len(rates) for rates in self.spec.rates), self.spec.rates[setting]
        return {f"rate_{i}": given[i] if i < len(given) else None for i in range(width)}

    def _refuse_what_only_captures_do(self, network: nn.Sequential) -> None:
        private = sorted(self._defense.hidden(network))
        changed = [hook for hook in ("local_steps", "batch_size") if overrides(self._defense, hook)]
        if private or changed:
            does = f"keeps {', '.join(private)} on the client" if private else f"changes {' and '.join(changed)}"
            raise UserError(
                f"defense '{self.spec.defense.name}' {does}, which a training sweep cannot do: use it in a capture only"
            )


def _numbers(found: Mapping[str, Evaluation], place: int) -> dict[str, float]:
    """Return accuracy and loss of one model on every evaluated part."""
    numbers = {}
    for part, result in found.items():
        numbers[f"{part}_accuracy"] = float(result.accuracy[place])
        numbers[f"{part}_loss"] = float(result.loss[place])
    return numbers


def _default_chunk(network: nn.Sequential, form: TrainableNetwork, device: torch.device) -> int:
    if isinstance(form, OneByOne):
        return 1
    if device.type == "cuda":
        return GPU_CHUNK
    fitting = max(1, CPU_PARAMETERS // sum(parameter.numel() for parameter in network.parameters()))
    return min(fitting, CPU_CONVOLUTIONAL) if any(isinstance(layer, nn.Conv2d) for layer in network) else fitting


def _where(condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition.view(-1, *[1] * (other.dim() - 1)), chosen, other)
