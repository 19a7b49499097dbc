"""Federated training of a whole sweep: all replicates (seeds x rates) and their clients advance together."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from leaklab.data.augmentations import Augmentation
from leaklab.data.dataset import Dataset
from leaklab.data.photographs import identity_of
from leaklab.defenses.base import Defense
from leaklab.federated import checkpoint as checkpoints
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.checkpoint import State, Stopped, Sweep
from leaklab.federated.client_work import ClientWork
from leaklab.federated.evaluation import OwnTests, Tally, evaluate, numbers_of, set_aside
from leaklab.federated.forms.dense import keep_freed_memory
from leaklab.federated.forms.low_rank import LEAST_TOGETHER
from leaklab.federated.forms.network import Backbone, default_chunk, normalised_for, trainable
from leaklab.federated.notes import SpentBudget, Watch
from leaklab.federated.optimizers import Optimizer
from leaklab.federated.population import Population, rate_columns
from leaklab.federated.refusals import refuse, refuse_other_networks
from leaklab.federated.rounds import Rounds, Sent
from leaklab.models.base import Architecture
from leaklab.records import plugins, purity
from leaklab.records.errors import UserError
from leaklab.records.record import Component, canonical_json
from leaklab.records.streams import stream
from leaklab.specs.training import OWN_TEST, VALIDATION, TrainSpec

Track = Callable[[Iterable[int], int, str], Iterable[int]]


def train(
    spec: TrainSpec,
    dataset: Dataset,
    clients: list[Tensor],
    *,
    tests: Sequence[Tensor] = (),
    validation: Sequence[Tensor] = (),
    pretrained: Mapping[str, Tensor] | None = None,
    chunk: int | None = None,
    device: str = "cpu",
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 120.0,
    shorter: Stopped | None = None,
    track: Track = lambda rounds, total, label: rounds,
) -> Sweep:
    """Train a sweep from its first round, from where a shorter one stopped, or from its checkpoint.

    A replicate whose loss or weights stop being finite is frozen at its last finite global weights and marked as
    diverged; one that reaches the spec's goal stops there; the others are not touched.

    Args:
        spec: what to train.
        dataset: images are normalised with its mean and std.
        clients: positions in the training part, one tensor a client.
        tests: positions in the test part, one tensor a client, for ``own-test``.
        validation: positions in the training part that are not trained on, one tensor a client, for ``validation``.
        pretrained: weights of the training that the spec's backbone is from, [R, ...] by name.
        chunk: models that train together; changes the speed only. None chooses by model and device.
        device: ``cpu`` or ``cuda``.
        checkpoint: file to go on from and to save to; the caller removes it at the end.
        checkpoint_seconds: least time between two saves.
        shorter: what the same training left that stopped earlier (``TrainSpec.goes_on``).
        track: wraps the loop over rounds (iterable, total, label), e.g. in a progress bar.

    Raises:
        UserError: the spec does not fit the dataset or the partition, or names an unknown plug-in or layer.
    """
    keep_freed_memory()
    federation = _Federation(spec, dataset, clients, tests, validation, pretrained or {}, chunk, torch.device(device))
    begun = [checkpoints.resume(checkpoint, federation.identity, federation.device)]
    begun += [federation.state_after(shorter)] if shorter else []
    found = max(filter(None, begun), key=lambda one: one.round, default=None)
    state = federation.ordered(found) if found else federation.first_state()
    saved = time.monotonic()
    last = spec.rounds_done
    if last == 0:
        state = federation.evaluated(state)
    for index in track(range(state.round, last), last - state.round, "rounds"):
        state = federation.next_state(state, index)
        if spec.goal is not None and not state.running.any():
            break
        if checkpoint is not None and not federation.sent and time.monotonic() - saved >= checkpoint_seconds:
            checkpoints.save(checkpoint, state, federation.identity)
            saved = time.monotonic()
    return Sweep(
        table=pd.DataFrame(state.rows).assign(**federation.backbone.columns),
        weights={name: value.cpu() for name, value in state.server.items()},
        clients={name: value.cpu() for name, value in state.clients.items()},
        sent=federation.sent,
        diverged=int(state.diverged.sum()),
        diverged_after=(state.steps // federation.rounds.work.steps).masked_fill(~state.diverged, -1).cpu(),
        clipped_clients=federation.clipped_clients(),
        client_steps=federation.rounds.client_steps,
        training_seconds=federation.training_seconds,
    )


class _Federation:
    """The parts of a sweep that do not change from round to round."""

    def __init__(
        self, spec: TrainSpec, dataset: Dataset, clients: list[Tensor], tests: Sequence[Tensor],
        validation: Sequence[Tensor], pretrained: Mapping[str, Tensor], chunk: int | None, device: torch.device,
    ) -> None:  # fmt: skip
        dataset = normalised_for(spec, dataset)
        self.spec, self.device = spec, device
        self._dtype = getattr(torch, spec.dtype)
        self._shape, self._num_classes = dataset.shape, dataset.num_classes
        self._model: Architecture = _plugin("models", spec.model)
        self._schedule = _plugin("federated/schedules", spec.schedule)
        self.backbone = Backbone.of(spec, self._model, dataset, pretrained, device)
        network = self.backbone.rest
        self._work = self._client_work(network)
        together = LEAST_TOGETHER if self._work.algorithm.generates_from else 1
        self._chunk = chunk or max(together, default_chunk(network, self._work.network, device))
        people = Population.of(spec, dataset, clients, self._work.algorithm, device)
        self._population = replace(people, images=self.backbone.features(people.images))
        test_images = self.backbone.features(dataset.normalised(dataset.test_images.to(device), self._dtype))
        self._parts = {
            "test": (test_images, dataset.test_labels.to(device)),
            "train": (self._population.images, self._population.labels),
        }
        if VALIDATION in spec.evaluate:
            images, labels = set_aside(dataset, validation, self._dtype, device)
            self._parts[VALIDATION] = self.backbone.features(images), labels
        own = None
        if OWN_TEST in spec.evaluate:
            form = self._work.network
            own = OwnTests.of(form, dataset, self._parts["test"], tests, len(clients), self._chunk)
        augmentation: Augmentation = _plugin("data/augmentations", spec.augmentation)
        self._watch = Watch.of(self._population, self._work, network.state_dict()) if spec.watch else None
        self.rounds = Rounds(self._population, self._work, augmentation, self._chunk, own, self._watch)
        self.identity = {"spec": canonical_json(spec), "data": self._fingerprint()}
        self.sent: Sent | None = None
        self._seconds = 0.0

    @property
    def training_seconds(self) -> float:
        """Wall time of the rounds, without tests."""
        return self._seconds - (self.rounds.tests.seconds if self.rounds.tests else 0.0)

    def first_state(self) -> State:
        """Return what servers and clients begin with: one draw a seed, the same for all its settings."""
        held = [self._start(seed) for seed in self.spec.seeds]
        settings = len(self.spec.rates)
        replicates = settings * len(held)
        server, clients = (
            {name: value.repeat_interleave(settings, 0).to(self.device) for name, value in _stacked(rows).items()}
            for rows in zip(*held, strict=True)
        )
        state = State(
            round=0,
            server=server,
            clients=clients,
            diverged=torch.zeros(replicates, dtype=torch.bool, device=self.device),
            reached=torch.zeros(replicates, dtype=torch.bool, device=self.device),
            steps=torch.zeros(replicates, dtype=torch.int64, device=self.device),
            rows=[],
            noted=self._watch.first(server, clients) if self._watch else {},
        )
        SpentBudget.of(self._work, self._population, state).refuse_more()
        return state

    def state_after(self, shorter: Stopped) -> State:
        """Return the state from which a shorter training goes on."""
        every = self.spec.evaluate_every
        due = every > 0 and shorter.round % every == 0
        own = [
            {name: value for name, value in row.items() if name not in self.backbone.columns} for row in shorter.rows
        ]
        state = replace(shorter, rows=own).state(self._work.steps, due).to(self.device)
        SpentBudget.of(self._work, self._population, state).refuse_more()
        return state

    def ordered(self, state: State) -> State:
        """Return a state from a file with its names in the order of the network: sums over them round by it."""
        server, clients = ({name: part[name] for name in wanted} for part, wanted in zip(
            (state.server, state.clients), self._start(self.spec.seeds[0]), strict=True
        ))  # fmt: skip
        return replace(state, server=server, clients=clients)

    def next_state(self, state: State, index: int) -> State:
        """Do round ``index`` (from 0) and evaluate if the spec asks for it."""
        started = time.perf_counter()
        number, every = index + 1, self.spec.evaluate_every
        last = number == self.spec.rounds_done
        due = last or (every > 0 and number % every == 0)
        with purity.watched(self._schedule, call="factor", draws="" if index else "no randomness: it is given none"):
            factor = self._schedule.factor(index, self.spec.rounds)
        found = self.rounds.next(state, index, factor, due, last)
        self.sent = found.sent
        learned = found.finite & state.running
        server = {name: _where(learned, found.server[name], before) for name, before in state.server.items()}
        clients = {name: _where(learned, found.clients[name], before) for name, before in state.clients.items()}
        steps = state.steps + learned * self._work.steps
        self._seconds += time.perf_counter() - started
        diverged = ~found.finite & ~state.reached | state.diverged
        noted = (found.notes.extractor if found.notes else {}) or state.noted
        after = State(number, server, clients, diverged, state.reached, steps, state.rows, noted)
        watched = self._watch.columns(found.notes, state.noted) if self._watch and found.notes and due else ()
        return self.evaluated(after, found.own, watched) if due else after

    def clipped_clients(self) -> int:
        """Return for how many clients the defense cut a value."""
        return self._population.clipped(self._work.defense)

    def _client_work(self, network: nn.Sequential) -> ClientWork:
        spec = self.spec
        algorithm: Algorithm = _plugin("federated/algorithms", spec.algorithm_plugin)
        defense: Defense = _plugin("defenses", spec.defense)
        refuse(spec, algorithm, defense, network)
        optimizer: Optimizer = _plugin("federated/optimizers", spec.optimizer)
        return ClientWork(
            algorithm=algorithm,
            network=trainable(network, self.backbone.shape, self.device, frozen=self.backbone.within),
            defense=defense,
            optimizer=optimizer,
            weight_decay=spec.weight_decay,
            local_steps=spec.local_steps,
            build=partial(self._model.build, self._shape, self._num_classes),
        )

    def _start(self, seed: int) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        """Return what a seed's server holds and, [N, ...], what its clients keep before the first round."""
        algorithm, count = self._work.algorithm, len(self._population.samples)
        whole = self._model.initialised(self._shape, self._num_classes, seed, self._dtype).state_dict()
        network = {name: value for name, value in whole.items() if not self._model.frozen(name)}
        with purity.watched(algorithm, call="a start", given={"network": network}, draws="the draws that it is given"):
            server = algorithm.server_start(network, stream(seed, "server", "start"))
            kept = [algorithm.client_start(network, stream(seed, "client", k, "start")) for k in range(count)]
        refuse_other_networks(self.spec.algorithm_plugin.name, algorithm, server, kept[0], network)
        return server, _stacked(kept)

    def _fingerprint(self) -> str:
        people = self._population
        parts = [(people.images, people.labels), self._parts["test"], *filter(None, [self._parts.get(VALIDATION)])]
        tensors = [value for images, labels in parts for value in (identity_of(images), labels)] + [*people.samples]
        tensors += self.rounds.tests.samples if self.rounds.tests else []
        tensors += self.backbone.constant.values()
        return checkpoints.fingerprint(tensors)

    def evaluated(self, state: State, own: Tally | None = None, watched: Sequence[Mapping[str, float]] = ()) -> State:
        """Return the state with the lines of its round: tests, ``own`` tests and what was ``watched``, by replicate."""
        shown = (~state.reached).nonzero().flatten().tolist()
        parts: list[str] = [part for part in self.spec.evaluate if part != OWN_TEST]
        held = {name: value[shown] for name, value in state.server.items()}
        weights = self._work.lifted("network", self._work.lifted("receive", held, {})) if parts else {}
        found = {part: evaluate(self._work.network, weights, *self._parts[part], self._chunk) for part in parts}
        diverged, reached = state.diverged.clone(), state.reached.clone()
        budget = SpentBudget.of(self._work, self._population, state)
        rows = []
        for place, replicate in enumerate(shown):
            numbers, seed = numbers_of(found, place), self.spec.seeds[replicate // len(self.spec.rates)]
            diverged[replicate] |= not all(isfinite(number) for number in numbers.values())
            reached[replicate] = self._reaches(numbers) and not diverged[replicate]
            rows.append({
                "replicate": replicate,
                "seed": seed,
                **rate_columns(self.spec.rates, replicate % len(self.spec.rates)),
                "round": state.round,
                **numbers,
                **(own.means(replicate) if own else {}),
                **budget.column(seed, state.round),
                **(watched[replicate] if watched else {}),
                "diverged": bool(diverged[replicate]),
                **({"reached": bool(reached[replicate])} if self.spec.goal else {}),
                "steps": int(state.steps[replicate]),
            })  # fmt: skip
        return replace(state, diverged=diverged, reached=reached, rows=state.rows + rows)

    def _reaches(self, numbers: Mapping[str, float]) -> bool:
        goal = self.spec.goal
        if goal is None:
            return False
        if goal.metric not in numbers:
            raise UserError(f"goal.metric is {goal.metric}: name its part under 'evaluate'")
        return numbers[goal.metric] >= goal.value


def _plugin(room: str, component: Component) -> Any:
    return plugins.load(room, component.name, component.settings)


def _where(condition: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    return torch.where(condition.view(-1, *[1] * (other.dim() - 1)), chosen, other)


def _stacked(rows: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
