"""AdamW with a linearly falling rate, from several starts per trial: the optimizer of the attacks on text."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.search import Objective
from leaklab.attacks.starts import StartRecord
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class DescentSettings:
    """How long and how fast.

    Attributes:
        iterations: steps per start.
        restarts: starts per trial; the smallest loss is chosen.
        rate: of the first step, in the units of the unknowns; it falls linearly to 0.
        decay: AdamW's weight decay.
    """

    iterations: int = 1000
    restarts: int = 1
    rate: float = 0.5
    decay: float = 0.0


@dataclass(frozen=True)
class Descended:
    """The best point of one start, [n], and its record."""

    point: Tensor
    record: StartRecord


def descend(objective: Objective, start: Tensor, row: int, number: int, settings: DescentSettings) -> Descended:
    """Minimise the loss of one trial from one start; the best point met counts, not the last.

    Args:
        objective: loss and derivative.
        start: [n].
        row: position of the trial.
        number: of the start, for the record.
        settings: see there.
    """
    point = start.clone()
    rows = torch.tensor([row], device=start.device)
    optimizer = torch.optim.AdamW([point], lr=settings.rate, weight_decay=settings.decay)
    best, best_point, evaluations, stopped = math.inf, start.clone(), 0, "budget"
    for step in range(settings.iterations):
        value, derivative = objective(point[None], rows)
        evaluations += 1
        if not (value.isfinite().all() and derivative.isfinite().all()):
            stopped = "diverged"
            break
        if float(value) < best:
            best, best_point = float(value), point.clone()
        optimizer.param_groups[0]["lr"] = settings.rate * (1 - step / settings.iterations)
        point.grad = derivative[0]
        optimizer.step()
    diverged = stopped == "diverged"
    return Descended(best_point, StartRecord(row, number, best, evaluations, evaluations, diverged, stopped))


def best_of_starts(
    objective: Objective, start_of: Callable[[int, int], Tensor], row: int, settings: DescentSettings
) -> tuple[Tensor, list[StartRecord]]:
    """Return the best point of a trial over its starts, by the attack's own loss, and all records.

    Raises:
        UserError: no iterations, no starts, or a rate or decay that is no size.
    """
    if settings.iterations < 1 or settings.restarts < 1 or settings.rate <= 0 or settings.decay < 0:
        raise UserError(f"{settings}: choose at least one iteration and one start, a positive rate, a decay from 0")
    ended = [descend(objective, start_of(row, n), row, n, settings) for n in range(settings.restarts)]
    return min(ended, key=lambda one: one.record.matching_loss).point, [one.record for one in ended]
