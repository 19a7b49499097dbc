"""Signed Adam: Adam that sees only the signs of the derivative, for many independent trials at once.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", sections 4 and 5; the rate 0.1
and its decay at 3/8, 5/8 and 7/8 of the iterations are those of its published code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import ceil, isfinite

import torch
from torch import Tensor

from leaklab.attacks.search.priors import Box
from leaklab.attacks.search.restarts import Objective, SearchResult
from leaklab.attacks.search.savepoints import savepoint
from leaklab.attacks.starts import StartRecord, as_tensor, from_tensor
from leaklab.records.errors import UserError

FIRST_MOMENT, SECOND_MOMENT, EPSILON = 0.9, 0.999, 1e-8
"""Adam's own defaults."""

DECAY_EIGHTHS = (3, 5, 7)
UNIT_BOX = Box(0.0, 1.0)


@dataclass(frozen=True)
class SignedAdamSettings:
    """How long, how often and how far.

    Attributes:
        iterations: steps per start, at least 1.
        restarts: starts per trial, at least 1.
        rate: Adam's step size before it decays, in units of the unknowns.
        decay: factor on the rate after 3/8, 5/8 and 7/8 of the iterations, in (0, 1]; 1 keeps the rate.
        box: where the unknowns are kept after each step; None for no bounds.
        signed: False for plain Adam.
    """

    iterations: int
    restarts: int
    rate: float = 0.1
    decay: float = 0.1
    box: Box | None = UNIT_BOX
    signed: bool = True

    def __post_init__(self) -> None:
        if min(self.iterations, self.restarts) < 1:
            raise UserError(f"{self.iterations} iterations and {self.restarts} restarts: ask for at least one of each")
        if not (isfinite(self.rate) and self.rate > 0):
            raise UserError(f"Adam's rate is a positive number, not {self.rate}")
        if not 0 < self.decay <= 1:
            raise UserError(f"the decay of Adam's rate is a factor in (0, 1], not {self.decay}")

    def rate_at(self, step: int) -> float:
        """Return the rate of step 0, 1, ..., iterations - 1."""
        passed = sum(step >= ceil(self.iterations * eighths / 8) for eighths in DECAY_EIGHTHS)
        return self.rate * self.decay**passed


@dataclass
class _Running:
    """The starts that still run: S places, one per trial."""

    rows: Tensor  # [S] trial
    points: Tensor  # [S, n]
    first: Tensor  # [S, n] Adam's mean of the derivatives
    second: Tensor  # [S, n] and of their squares
    best: Tensor  # [S]
    best_points: Tensor  # [S, n]

    def take(self, places: Tensor) -> "_Running":
        return _Running(**{name: value[places] for name, value in vars(self).items()})

    def remember(self, loss: Tensor, usable: Tensor) -> None:
        better = usable & (loss < self.best)
        self.best = torch.where(better, loss, self.best)
        self.best_points = torch.where(better[:, None], self.points, self.best_points)

    def advance(self, derivative: Tensor, step: int, settings: SignedAdamSettings) -> None:
        """Take one step; with the operations of ``torch.optim.Adam`` in their order."""
        direction = derivative.sign() if settings.signed else derivative
        self.first.lerp_(direction, 1 - FIRST_MOMENT)
        self.second.mul_(SECOND_MOMENT).addcmul_(direction, direction, value=1 - SECOND_MOMENT)
        length = settings.rate_at(step) / (1 - FIRST_MOMENT ** (step + 1))
        size = (self.second.sqrt() / (1 - SECOND_MOMENT ** (step + 1)) ** 0.5).add_(EPSILON)
        self.points = _projected(self.points.addcdiv(self.first, size, value=-length), settings)


def signed_adam(
    objective: Objective, start_of: Callable[[int, int], Tensor], trials: int, settings: SignedAdamSettings
) -> SearchResult:
    """Minimise the objective of each trial from several starts.

    The trials run side by side and the starts one after the other, so that an objective sees the same trials again. A
    start whose loss or derivative is not finite ends as diverged; the others go on. The point of the smallest loss is
    kept, the start (projected into the box) and the last point included.

    Args:
        objective: see ``Objective``.
        start_of: (row, start) -> initial unknowns [n].
        trials: T.
        settings: see ``SignedAdamSettings``.

    Raises:
        UserError: there is no trial.
    """
    if trials < 1:
        raise UserError("there is no trial to attack: capture at least one")
    points, losses, records = [], [], []
    for number in range(settings.restarts):
        first = _projected(torch.stack([start_of(row, number) for row in range(trials)]), settings)
        ended = _one_start(objective, first, number, settings)
        points.append(ended.points)
        losses.append(ended.losses)
        records += ended.records
    records.sort(key=lambda record: (record.trial, record.start))
    return SearchResult(torch.stack(points, 1), torch.stack(losses, 1), records)


@dataclass
class _Ended:
    """What one start of every trial has found, for those where it has ended: their best points and losses."""

    start: int
    points: Tensor  # [T, n]
    losses: Tensor  # [T]
    records: list[StartRecord] = field(default_factory=list)

    def add(self, running: _Running, step: int, stopped: str) -> None:
        self.points[running.rows], self.losses[running.rows] = running.best_points, running.best
        for row, loss in zip(running.rows.tolist(), running.best.tolist(), strict=True):
            record = StartRecord(row, self.start, loss, step, step + 1, stopped == "diverged", stopped)
            self.records.append(record)


def _one_start(objective: Objective, first: Tensor, start: int, settings: SignedAdamSettings) -> _Ended:
    """Search from the points [T, n], one of every trial."""
    with savepoint() as saved:
        ended, running, step = _going_on(saved.found(), first, start)
        while len(running.rows) > 0:
            loss, derivative = objective(running.points, running.rows)
            usable = loss.isfinite() & derivative.isfinite().all(1)
            running.remember(loss, usable)
            if not usable.all():
                ended.add(running.take(~usable), step, "diverged")
                running, derivative = running.take(usable), derivative[usable]
            if step == settings.iterations:
                ended.add(running, step, "budget")
                running = running.take(running.rows[:0])
            else:
                running.advance(derivative, step, settings)
            step += 1
            saved.offer(partial(_state, ended, running, step))
    return ended


def _going_on(found: Mapping[str, Tensor], first: Tensor, start: int) -> tuple[_Ended, _Running, int]:
    """Return what has ended, what runs, and the next step: those of a state, or of the beginning."""
    if not found:
        unbounded = first.new_full((len(first),), torch.inf)
        rows, zeros = torch.arange(len(first), device=first.device), torch.zeros_like(first)
        running = _Running(rows, first, zeros, zeros.clone(), unbounded, first.clone())
        return _Ended(start, first.clone(), unbounded.clone()), running, 0
    state = {name: value.to(first.device) for name, value in found.items()}
    records = list(from_tensor(state.pop("records")))
    ended = _Ended(start, state.pop("ended_points"), state.pop("ended_losses"), records)
    step = int(state.pop("step"))
    return ended, _Running(**state), step


def _state(ended: _Ended, running: _Running, step: int) -> dict[str, Tensor]:
    """Return the state before a step."""
    of_ended = {"ended_points": ended.points, "ended_losses": ended.losses, "records": as_tensor(ended.records)}
    return {**vars(running), **of_ended, "step": torch.tensor(step)}


def _projected(points: Tensor, settings: SignedAdamSettings) -> Tensor:
    return points if settings.box is None else settings.box.project(points)
