"""Signed Adam: Adam that sees only the signs of the derivative, for many independent trials at once.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", sections 4 and 5; the rate 0.1
and its decay at 3/8, 5/8 and 7/8 of the iterations are those of its published code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite

import torch
from torch import Tensor

from leaklab.attacks.priors import Box
from leaklab.attacks.search import Objective, SearchResult
from leaklab.attacks.starts import StartRecord
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
    for start in range(settings.restarts):
        first = torch.stack([start_of(row, start) for row in range(trials)])
        best_points, best, ended = _one_start(objective, _projected(first, settings), start, settings)
        points.append(best_points)
        losses.append(best)
        records += ended
    records.sort(key=lambda record: (record.trial, record.start))
    return SearchResult(torch.stack(points, 1), torch.stack(losses, 1), records)


def _one_start(
    objective: Objective, points: Tensor, start: int, settings: SignedAdamSettings
) -> tuple[Tensor, Tensor, list[StartRecord]]:
    """Return the best points [T, n], their losses [T] and the records of one start of every trial."""
    best_points, best = points.clone(), points.new_full((len(points),), torch.inf)
    records: list[StartRecord] = []
    running = _Running(
        rows=torch.arange(len(points), device=points.device),
        points=points,
        first=torch.zeros_like(points),
        second=torch.zeros_like(points),
        best=best.clone(),
        best_points=points.clone(),
    )

    def end(places: Tensor, step: int, stopped: str) -> None:
        ended = running.take(places)
        best_points[ended.rows], best[ended.rows] = ended.best_points, ended.best
        for row, loss in zip(ended.rows.tolist(), ended.best.tolist(), strict=True):
            records.append(StartRecord(row, start, loss, step, step + 1, stopped == "diverged", stopped))

    for step in range(settings.iterations + 1):
        loss, derivative = objective(running.points, running.rows)
        usable = loss.isfinite() & derivative.isfinite().all(1)
        running.remember(loss, usable)
        if not usable.all():
            end((~usable).nonzero()[:, 0], step, "diverged")
            kept = usable.nonzero()[:, 0]
            running, derivative = running.take(kept), derivative[kept]
        if step == settings.iterations or len(running.rows) == 0:
            break
        running.advance(derivative, step, settings)
    end(torch.arange(len(running.rows), device=points.device), settings.iterations, "budget")
    return best_points, best, records


def _projected(points: Tensor, settings: SignedAdamSettings) -> Tensor:
    return points if settings.box is None else settings.box.project(points)
