"""Federated training of a whole sweep: all replicates (seeds x rates) and their clients advance together."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from leaklab.data.dataset import Dataset
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated import checkpoint as checkpoints
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.checkpoint import State
from leaklab.federated.evaluation import evaluate
from leaklab.federated.local import local_training
from leaklab.federated.population import Population
from leaklab.federated.stacked import StackedNetwork
from leaklab.federated.sweep import Piece, pieces
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.ids import canonical_json
from leaklab.records.specs import TrainSpec

Track = Callable[[Iterable[int], int, str], Iterable[int]]

# models per pass: on CPUs more parameters, or the activations of more convolutional models, fall out of the cache
CPU_PARAMETERS, CPU_CONVOLUTIONAL, GPU_CHUNK = 1_000_000, 6, 1024


@dataclass(frozen=True)
class Sweep:
    """The result of a training job.

    Attributes:
        table: one row per replicate and evaluated round: replicate, seed, rate_0 ... (as in the spec), round (rounds
            done), test_accuracy (percent), test_loss, diverged, steps (optimiser steps so far per client).
        weights: final global weights by name, [R, ...].
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
    diverged; the others are not touched.

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
    federation = _Federation(spec, dataset, clients, chunk, torch.device(device))
    state = checkpoints.resume(checkpoint, federation.identity, federation.device) or federation.first_state()
    saved = time.monotonic()
    for index in track(range(state.round, spec.rounds), spec.rounds - state.round, "rounds"):
        state = federation.next_state(state, index)
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
        network = self._model.build(self._shape, self._num_classes)
        self._refuse_private_parameters([name for name, _ in network.named_parameters()])
        self._network = StackedNetwork(network, self._shape)
        self._chunk = chunk or _default_chunk(network, device)

        self._population = Population.of(spec, dataset, clients, device)
        self._test_images = dataset.normalised(dataset.test_images.to(device), self._dtype)
        self._test_labels = dataset.test_labels.to(device)
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
            for name, _ in networks[0].named_parameters()
        }
        replicates = settings * len(networks)
        return State(
            round=0,
            weights={name: value.to(self.device) for name, value in weights.items()},
            diverged=torch.zeros(replicates, dtype=torch.bool, device=self.device),
            steps=torch.zeros(replicates, dtype=torch.int64, device=self.device),
            rows=[],
        )

    def next_state(self, state: State, index: int) -> State:
        """Do round ``index`` (from 0) and evaluate if the spec asks for it."""
        started = time.perf_counter()
        averaged, finite = self._average(state, index)
        alive = finite & ~state.diverged
        weights = {name: _where(alive, averaged[name], before) for name, before in state.weights.items()}
        steps = state.steps + alive * self.spec.local_steps
        self.training_seconds += time.perf_counter() - started
        after = State(index + 1, weights, ~alive, steps, state.rows)
        every = self.spec.evaluate_every
        due = after.round == self.spec.rounds or (every > 0 and after.round % every == 0)
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
        for piece in pieces(self._population.parts(index), settings, self._chunk, self.spec.batch_size):
            replicates = [r for part in piece.parts for r in piece.replicates(part, settings)]
            result = local_training(
                self._network,
                {name: value[replicates] for name, value in state.weights.items()},
                self._batches(piece),
                self._contexts(piece, index),
                self._defense,
                momentum=self.spec.momentum,
                weight_decay=self.spec.weight_decay,
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
        dropouts = self._network.dropouts
        return batch_stream(people.images, people.labels, visits, dropouts, spec.local_steps, spec.batch_size)

    def _contexts(self, piece: Piece, index: int) -> list[ClientContext]:
        factor = self._schedule.factor(index, self.spec.rounds)
        return [
            self._population.context(part.visit, setting, factor)
            for part in piece.parts
            for setting in range(piece.first, piece.last)
        ]

    def _fingerprint(self) -> str:
        people = self._population
        tensors = [people.images, people.labels, self._test_images, self._test_labels, *people.samples]
        return checkpoints.fingerprint(tensors)

    def _evaluated(self, state: State) -> State:
        result = evaluate(self._network, state.weights, self._test_images, self._test_labels, self._chunk)
        diverged = state.diverged | ~result.loss.isfinite().to(self.device)
        rows = [
            {
                "replicate": replicate,
                "seed": self.spec.seeds[replicate // len(self.spec.rates)],
                **self._rate_columns(replicate % len(self.spec.rates)),
                "round": state.round,
                "test_accuracy": float(result.accuracy[replicate]),
                "test_loss": float(result.loss[replicate]),
                "diverged": bool(diverged[replicate]),
                "steps": int(state.steps[replicate]),
            }
            for replicate in range(len(diverged))
        ]
        return State(state.round, state.weights, diverged, state.steps, state.rows + rows)

    def _rate_columns(self, setting: int) -> dict[str, float | None]:
        """Return the setting's rates as given; a setting with one rate for all leaves the other columns empty."""
        width, given = max(len(rates) for rates in self.spec.rates), self.spec.rates[setting]
        return {f"rate_{i}": given[i] if i < len(given) else None for i in range(width)}

    def _refuse_private_parameters(self, names: list[str]) -> None:
        private = [name for name in names if not self._defense.shares(name)]
        if private:
            raise UserError(
                f"defense '{self.spec.defense.name}' keeps {', '.join(private)} on the client, which a training sweep "
                "cannot do: use it in a capture only"
            )


def _default_chunk(network: nn.Sequential, device: torch.device) -> int:
    if device.type == "cuda":
        return GPU_CHUNK
    fitting = max(1, CPU_PARAMETERS // sum(parameter.numel() for parameter in network.parameters()))
    return min(fitting, CPU_CONVOLUTIONAL) if any(isinstance(layer, nn.Conv2d) for layer in network) else fitting


def _where(condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition.view(-1, *[1] * (other.dim() - 1)), chosen, other)
