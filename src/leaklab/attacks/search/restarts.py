"""Restarts: several starts per trial, among which the attack's own loss chooses.

Each is searched with L-BFGS until it matches, stagnates, diverges or is out of budget.

All running starts advance together, one evaluation each; a trial that needs another start gets it at once, in the
same place. What a trial does never depends on the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from leaklab.attacks.search.lbfgs import BatchedLbfgs, LbfgsSettings
from leaklab.attacks.search.savepoints import savepoint
from leaklab.attacks.starts import STOPPED, StartRecord, as_tensor, from_tensor
from leaklab.records.bounds import Count, NonNegative, Share


class Objective(Protocol):
    """Loss of S trials: ``points`` [S, n], ``rows`` [S] -> values [S], derivatives [S, n]."""

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return values and derivatives."""
        ...


class Matching(Objective, Protocol):
    """An objective that compares gradients."""

    def loss_of_nothing(self) -> Tensor:
        """Return the loss of a zero gradient, [T]: the unit of relative losses and of priors' weights."""
        ...


@dataclass(frozen=True)
class SearchSettings:
    """When a start ends and when another one is tried; losses are in units of ``unit`` (see ``search``).

    Attributes:
        iterations: largest number of outer steps per start.
        restarts: largest number of starts per trial.
        matched: a start ends when its loss is below this.
        accepted: no further start is tried when the trial's best loss is below this.
        patience: a start ends as stagnated when so many outer steps' worth of iterations ...
        improvement: ... lowered its best loss by less than this fraction.
    """

    iterations: int
    restarts: int
    matched: float
    accepted: float
    patience: int
    improvement: float


@dataclass(frozen=True)
class StopRules:
    """The settings of attacks that search by L-BFGS: when a start ends and when another one is tried.

    Attributes:
        matched: a start ends below this loss, relative to the loss of an all-zero gradient.
        accepted: below this relative loss no further start is tried.
        patience: a start has stagnated after so many outer steps' worth of iterations ...
        improvement: ... in which its best loss fell by less than this fraction.
    """

    matched: NonNegative = 3e-9
    accepted: NonNegative = 2e-8
    patience: Count = 5
    improvement: Share = 0.1

    def within(self, iterations: int, restarts: int) -> SearchSettings:
        """Return the search's settings under a budget."""
        return SearchSettings(iterations, restarts, self.matched, self.accepted, self.patience, self.improvement)


@dataclass
class SearchResult:
    """Best point of every start: ``points`` [T, R, n], ``losses`` [T, R] (inf where none), and the records."""

    points: Tensor
    losses: Tensor
    records: list[StartRecord] = field(default_factory=list)

    def chosen(self) -> Tensor:
        """Return for each trial the start of the smallest loss: [T]."""
        return self.losses.argmin(1)


@dataclass
class _Running:
    """The starts that are running: S places."""

    rows: Tensor  # [S] trial
    starts: Tensor  # [S] number of the start
    best: Tensor  # [S]
    best_points: Tensor  # [S, n]
    evaluations: Tensor  # [S]
    reference: Tensor  # [S] best loss when it last fell by the required fraction
    since: Tensor  # [S] iteration of that event

    def take(self, places: Tensor) -> "_Running":
        return _Running(**{name: value[places] for name, value in vars(self).items()})


def search(
    objective: Objective,
    start_of: Callable[[int, int], Tensor],
    unit: Tensor,
    settings: SearchSettings,
    lbfgs: LbfgsSettings,
) -> SearchResult:
    """Minimise the objective of each trial.

    Args:
        objective: see ``Objective``.
        start_of: (row, start) -> initial unknowns [n].
        unit: [T] what a trial's loss is compared with (the loss of an all-zero gradient).
        settings: restarts and stop rules.
        lbfgs: the optimiser's settings.
    """
    trials = len(unit)
    first = torch.stack([start_of(row, 0) for row in range(trials)])
    result = SearchResult(
        points=first[:, None].repeat(1, settings.restarts, 1),
        losses=first.new_full((trials, settings.restarts), float("inf")),
    )
    optimiser = BatchedLbfgs(first, lbfgs)
    rows = torch.arange(trials, device=first.device)
    running = _begin(rows, torch.zeros_like(rows), first)
    with savepoint() as saved:
        if found := saved.found():
            result, running = _going_on(found, optimiser)
        while len(running.rows) > 0:
            loss, gradient = objective(optimiser.point, running.rows)
            finite = loss.isfinite() & gradient.isfinite().all(1)
            _remember(running, optimiser, loss, finite, settings)
            optimiser.advance(loss, gradient, finite)
            stopped = _stop_reasons(running, optimiser, finite, unit, settings, lbfgs)
            ended = (stopped >= 0).nonzero()[:, 0]
            for place in ended.tolist():
                _record(result, running, optimiser, place, STOPPED[int(stopped[place])])
            if len(ended) > 0:
                running = _replace(running, optimiser, ended, start_of, result, unit, settings)
            saved.offer(partial(_state, result, running, optimiser))
    result.records.sort(key=lambda record: (record.trial, record.start))
    return result


RESULT, RUNNING, OPTIMISER = "result/", "running/", "lbfgs/"


def _state(result: SearchResult, running: _Running, optimiser: BatchedLbfgs) -> dict[str, Tensor]:
    """Return the state before an evaluation."""
    of_result = {"points": result.points, "losses": result.losses, "records": as_tensor(result.records)}
    parts = {RESULT: of_result, RUNNING: vars(running), OPTIMISER: optimiser.state()}
    return {prefix + name: value for prefix, part in parts.items() for name, value in part.items()}


def _going_on(found: Mapping[str, Tensor], optimiser: BatchedLbfgs) -> tuple[SearchResult, _Running]:
    """Put the optimiser into a state, and return the rest of it."""
    device = optimiser.point.device
    result, running, inner = (
        {name.removeprefix(prefix): value.to(device) for name, value in found.items() if name.startswith(prefix)}
        for prefix in (RESULT, RUNNING, OPTIMISER)
    )
    optimiser.go_on(inner)
    records = list(from_tensor(result["records"]))
    return SearchResult(result["points"], result["losses"], records), _Running(**running)


def _begin(rows: Tensor, starts: Tensor, points: Tensor) -> _Running:
    infinite = points.new_full((len(rows),), float("inf"))
    none = torch.zeros_like(rows)
    return _Running(rows, starts, infinite, points.clone(), none, infinite.clone(), none.clone())


def _remember(
    running: _Running, optimiser: BatchedLbfgs, loss: Tensor, finite: Tensor, settings: SearchSettings
) -> None:
    better = finite & (loss < running.best)
    running.evaluations += 1
    running.best = torch.where(better, loss, running.best)
    running.best_points = torch.where(better[:, None], optimiser.point, running.best_points)
    marked = finite & (running.best < (1 - settings.improvement) * running.reference)
    running.reference = torch.where(marked, running.best, running.reference)
    running.since = torch.where(marked, optimiser.iterations, running.since)


def _stop_reasons(
    running: _Running,
    optimiser: BatchedLbfgs,
    finite: Tensor,
    unit: Tensor,
    settings: SearchSettings,
    lbfgs: LbfgsSettings,
) -> Tensor:
    """Return for each place the index into ``STOPPED``, -1 where the start goes on: [S]."""
    waited = optimiser.iterations - running.since >= settings.patience * lbfgs.max_iter
    rules = (
        ~finite,
        # a zero update is as far from nothing as from anything: no point matches it
        (running.best <= settings.matched * unit[running.rows]) & (unit[running.rows] > 0),
        waited | optimiser.stalled,
        optimiser.outer >= settings.iterations,
    )
    reason = torch.full_like(running.rows, -1)
    for number, applies in reversed(list(enumerate(rules))):
        reason = torch.where(applies, number, reason)
    return reason


def _record(result: SearchResult, running: _Running, optimiser: BatchedLbfgs, place: int, stopped: str) -> None:
    row, start = int(running.rows[place]), int(running.starts[place])
    result.points[row, start] = running.best_points[place]
    result.losses[row, start] = running.best[place]
    result.records.append(
        StartRecord(
            trial=row,
            start=start,
            matching_loss=float(running.best[place]),
            iterations=int(optimiser.outer[place]),
            evaluations=int(running.evaluations[place]),
            diverged=stopped == "diverged",
            stopped=stopped,
        )
    )


def _replace(
    running: _Running,
    optimiser: BatchedLbfgs,
    ended: Tensor,
    start_of: Callable[[int, int], Tensor],
    result: SearchResult,
    unit: Tensor,
    settings: SearchSettings,
) -> _Running:
    """Put the next start of unfinished trials in place of the ended ones and drop the places that are done."""
    rows, starts = running.rows[ended], running.starts[ended] + 1
    unsatisfied = result.losses[rows].amin(1) > settings.accepted * unit[rows]
    again = unsatisfied & (starts < settings.restarts)
    places = ended[again]
    if len(places) > 0:
        pairs = zip(rows[again].tolist(), starts[again].tolist(), strict=True)
        points = torch.stack([start_of(row, start) for row, start in pairs])
        optimiser.restart(places, points)
        fresh = _begin(rows[again], starts[again], points)
        for name, value in vars(running).items():
            value[places] = getattr(fresh, name)
    keep = torch.ones_like(running.rows, dtype=torch.bool)
    keep[ended[~again]] = False
    if keep.all():
        return running
    kept = keep.nonzero()[:, 0]
    optimiser.keep(kept)
    return running.take(kept)
