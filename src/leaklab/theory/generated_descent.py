"""HyperFL's steps as its convergence proof counts them: each step moves head, hypernetwork and embedding once.

Source: HyperFL, equations (4)-(6) with the indices of assumptions 2 and 3: the head moves first, the other two with the
new head; after every E steps the hypernetworks are averaged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor

from leaklab.records.streams import Stream, stream
from leaklab.theory.base import Track
from leaklab.theory.tasks import GROUPS, Values, curvature, slopes, squared_norm

CHECKPOINTS = frozenset({0, *(4**power for power in range(20))})


@dataclass(frozen=True)
class Task:
    """Samples and first values.

    Attributes:
        features: [m, n, d].
        labels: one-hot, [m, n, C].
        start: first values by name, [R, m, ...].
        seed: of the samples' draws.
        local_steps: E.
    """

    features: Tensor
    labels: Tensor
    start: Values
    seed: int
    local_steps: int


@dataclass(frozen=True)
class Way:
    """What was seen on the way, for S runs of T_1 < ... < T_S steps with R repetitions each.

    Attributes:
        own: mean over clients and steps of the squared norm of the client's own gradient, [S, R].
        shared: the same with the clients' mean in place of the hypernetwork's part, [S, R].
        gradient_square: largest mean square of a sample's gradient, over groups, clients, steps and runs.
        smoothness: largest curvature, over clients and runs, at first, after each run and at powers of 4 in between.
    """

    own: Tensor
    shared: Tensor
    gradient_square: float
    smoothness: float


def descend(task: Task, lengths: Sequence[int], rates: Sequence[Mapping[str, float]], track: Track, label: str) -> Way:
    """Do runs of ascending ``lengths`` together; run s moves each group at its rate in ``rates[s]``."""
    runs, repeats = len(lengths), len(task.start["v"])
    values = {name: value.expand(runs, *value.shape).clone() for name, value in task.start.items()}
    steps = {group: torch.tensor([own[group] for own in rates], dtype=torch.float64) for group in GROUPS}
    own, shared = (torch.zeros(runs, repeats, dtype=torch.float64) for _ in range(2))
    largest, steepest, done = 0.0, 0.0, 0
    draws = [stream(task.seed, "generated", repeat, "samples") for repeat in range(repeats)]
    for step in track(range(lengths[-1]), lengths[-1], label):
        exact = slopes(values, task.features, task.labels)
        largest = max(largest, *(float(square.max()) for square in exact.squares.values()))
        own[done:] += squared_norm(exact.gradients, 3).mean(-1)
        shared[done:] += squared_norm(_shared(exact.gradients), 3).mean(-1)
        if step in CHECKPOINTS:
            steepest = max(steepest, _curvature(task, values))
        values = _step(task, values, {group: value[done:] for group, value in steps.items()}, draws)
        if (step + 1) % task.local_steps == 0:
            values |= _averaged({name: values[name] for name in GROUPS["hypernetwork"]})
        while done < runs and lengths[done] == step + 1:
            steepest = max(steepest, _curvature(task, {name: value[:1] for name, value in values.items()}))
            values, done = {name: value[1:] for name, value in values.items()}, done + 1
    counts = torch.tensor(lengths, dtype=torch.float64).unsqueeze(1)
    return Way(own / counts, shared / counts, largest, steepest)


def start_of(task: Task) -> Way:
    """Return what is seen before the first step."""
    exact = slopes(task.start, task.features, task.labels)
    norms = squared_norm(exact.gradients, 2).mean(-1).unsqueeze(0)
    largest = max(float(square.max()) for square in exact.squares.values())
    found = Way(norms, norms, largest, 0.0)
    return replace(found, smoothness=_curvature(task, {n: v.unsqueeze(0) for n, v in task.start.items()}))


def _step(task: Task, values: Values, rates: Mapping[str, Tensor], draws: Sequence[Stream]) -> dict[str, Tensor]:
    clients, samples = task.labels.shape[:2]
    chosen = torch.stack([own.integers(0, samples, clients) for own in draws])
    everyone = torch.arange(clients)
    features, labels = (part[everyone, chosen].unsqueeze(-2) for part in (task.features, task.labels))
    moved = dict(values)
    for groups in (("head",), ("hypernetwork", "embedding")):
        gradients = slopes(moved, features, labels).gradients
        for group in groups:
            for name in GROUPS[group]:
                rate = rates[group].view(-1, *[1] * (moved[name].dim() - 1))
                moved[name] = moved[name] - rate * gradients[name]
    return moved


def _averaged(values: Values) -> dict[str, Tensor]:
    return {name: value.mean(2, keepdim=True).expand_as(value) for name, value in values.items()}


def _shared(gradients: Values) -> dict[str, Tensor]:
    return {**gradients, **_averaged({name: gradients[name] for name in GROUPS["hypernetwork"]})}


def _curvature(task: Task, values: Values) -> float:
    count = values["v"].shape[:2].numel()
    flat = {name: value.flatten(0, 2) for name, value in values.items()}
    return curvature(flat, task.features.repeat(count, 1, 1), task.labels.repeat(count, 1, 1))


# The bound of HyperFL's theorem, and the step size that it needs without saying so.


@dataclass(frozen=True)
class Constants:
    """What the theorem assumes.

    Attributes:
        smoothness: L, of every client's loss in all its values together.
        gradient_square: G^2, bound of the mean square of a stochastic gradient of head, hypernetwork or embedding.
        gap: D, by how much a client's first loss is above its least one, at most.
        local_steps: E.
        drift: whether M carries the term (E - 1) / L eta_h.
    """

    smoothness: float
    gradient_square: float
    gap: float
    local_steps: int
    drift: bool = True

    def rate(self, steps: int) -> float:
        """Return eta for T = ``steps``: the root of M(eta) eta^2 = 2 D / (L G^2 T)."""
        square, linear = 4 * self.local_steps - 2, self._drift / 2
        wanted = 2 * self.gap / (self.smoothness * self.gradient_square * steps)
        # the usual formula loses all digits where the linear term is large
        return wanted / (linear + sqrt(linear**2 + square * wanted))

    def rates(self, steps: int) -> dict[str, float]:
        """Return eta_g, eta_h and eta_v, by what they move."""
        rate = self.rate(steps)
        return {"head": rate, "hypernetwork": 2 * rate, "embedding": rate}

    def factor(self, steps: int) -> float:
        """Return M for T = ``steps``."""
        return 4 * self.local_steps - 2 + self._drift / self.rate(steps)

    def bound(self, steps: int) -> float:
        """Return the right side of (11) for T = ``steps``."""
        return 2 * sqrt(self.smoothness * self.factor(steps) * self.gradient_square * self.gap / (2 * steps))

    @property
    def _drift(self) -> float:
        return 2 * (self.local_steps - 1) / self.smoothness if self.drift else 0.0
