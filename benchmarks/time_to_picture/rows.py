"""From runs to the figures of a report: medians in which never is infinite, and how many reached what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from statistics import median

import pandas as pd
from speed import rows as speed_rows

from time_to_picture.cases import GOAL_LEVEL, Case
from time_to_picture.contestants import Attacker, hindrance
from time_to_picture.runs import SECONDS
from time_to_picture.workers.meter import GIVEN_UP, LEVELS

MISSING = "not measured yet"


@dataclass(frozen=True)
class Figures:
    """What came of a contestant's runs on a case.

    Attributes:
        count: of the updates.
        seconds: level -> median of the processor seconds per update; inf where half of them never came so far.
        reached: level -> how many did.
        final: median of the last guesses, in dB.
        prior: median of the processor seconds per update that the prior took; in ``seconds`` it is not counted.
        given_up: runs that were left before their cap because nothing was gained any more.
        failed: runs that broke, which never came anywhere.
    """

    count: int
    seconds: dict[float, float]
    reached: dict[float, int]
    final: float
    prior: float
    given_up: int = 0
    failed: int = 0

    def with_prior(self, level: float) -> float:
        """Return the seconds until a level, those of the prior counted."""
        return self.prior + self.seconds[level]


Row = speed_rows.Row[Case, Figures]


def rows(table: pd.DataFrame, cases: Sequence[Case], contestants: Sequence[Attacker]) -> list[Row]:
    """Return a row for each contestant of each case, in order.

    Args:
        table: see ``runs.Kept.table``.
        cases: what was attacked.
        contestants: by whom.
    """
    found = []
    for case in cases:
        for contestant in contestants:
            own = table[(table["case"] == case.name) & (table["contestant"] == contestant.name)]
            why = hindrance(case, contestant) or MISSING
            found.append(Row(case, contestant, figures(own) if len(own) else None, "" if len(own) else why))
    return found


def figures(runs: pd.DataFrame) -> Figures:
    """Return the figures of the runs of one contestant on one case, at least one."""
    seconds = runs[list(SECONDS)].astype(float).fillna(inf)
    failed = runs["reason"].notna()
    return Figures(
        count=len(runs),
        seconds={level: median(seconds[name]) for level, name in zip(LEVELS, SECONDS, strict=True)},
        reached={level: int(seconds[name].lt(inf).sum()) for level, name in zip(LEVELS, SECONDS, strict=True)},
        final=median(runs["psnr"][~failed].astype(float)) if not failed.all() else nan,
        prior=median(runs["prior"][~failed].astype(float)) if not failed.all() else 0.0,
        given_up=int((runs["ended"] == GIVEN_UP).sum()),
        failed=int(failed.sum()),
    )


def busy(table: pd.DataFrame) -> float:
    """Return the seconds on the clock that a processor second took, median of the runs; NaN without any."""
    ratios = (table["wall"].astype(float) / table["total"].astype(float)).dropna()
    return median(ratios) if len(ratios) else nan


@dataclass(frozen=True)
class Comparison:
    """The best of ours and the best peer in a case, each picked afterwards at each level.

    Attributes:
        case: what was attacked.
        peers: level -> seconds of the best peer; inf where none came so far.
        ours: the same of ours, without the prior.
        counted: the same with it.
        measured: whether at least one of ours and one peer were.
        whole: whether everybody was who is to be.
    """

    case: Case
    peers: dict[float, float]
    ours: dict[float, float]
    counted: dict[float, float]
    measured: bool
    whole: bool

    def ratio(self, level: float, *, prior: bool) -> float:
        """Return the best peer over the best of ours; inf where we alone came so far, NaN where nobody did or was."""
        if not self.measured:
            return nan
        ours, peer = (self.counted if prior else self.ours)[level], self.peers[level]
        if not isfinite(ours):
            return 0.0 if isfinite(peer) else nan
        return peer / ours

    @property
    def meets_goal(self) -> bool | None:
        """Whether we are as far ahead as we want to be, the prior counted; None of a case without such a goal."""
        return None if self.case.goal is None else self.ratio(GOAL_LEVEL, prior=True) >= self.case.goal

    @property
    def behind(self) -> list[float]:
        """Levels at which the best peer is faster than the best of ours with the prior counted."""
        return [level for level in LEVELS if self.ratio(level, prior=True) < 1]


def compared(found: Sequence[Row], case: Case, *, together: bool) -> Comparison:
    """Return how the best of ours, each update alone or all of them together, stand to the best peer."""
    own = [row for row in found if row.workload == case and isinstance(row.contestant, Attacker)]
    ours = [row for row in own if row.contestant.ours and row.contestant.together == together]
    peers = [row for row in own if not row.contestant.ours]
    taken = [row for row in (*ours, *peers) if row.reason in ("", MISSING)]
    return Comparison(
        case,
        _best(peers, lambda one, level: one.seconds[level]),
        _best(ours, lambda one, level: one.seconds[level]),
        _best(ours, lambda one, level: one.with_prior(level)),
        all(any(row.figures is not None for row in side) for side in (ours, peers)),
        all(row.figures is not None for row in taken),
    )


def _best(found: Sequence[Row], seconds: Callable[[Figures, float], float]) -> dict[float, float]:
    own = [row.figures for row in found if row.figures is not None]
    return {level: min((seconds(one, level) for one in own), default=inf) for level in LEVELS}
