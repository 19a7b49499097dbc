"""The attacker of the paper and the knowing one, the strongest of all that were tried, number by number."""

from dataclasses import dataclass

from leaklab.report.judge.worst_case import contested, setting_of
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    BY,
    DIFFERENCE,
    KNOWING,
    PAPER,
    ResultRow,
    ResultTable,
    RowKeys,
    identity,
)

Interval = tuple[float, float]
MEDIAN = "_median"


@dataclass(frozen=True)
class AttackerPair:
    """One number under the attacker of the paper and under the knowing one.

    Attributes:
        row: what the number belongs to.
        metric: what was measured.
        unit: of both numbers.
        better: direction in which privacy improves; empty if unknown.
        paper: value under the attacker of the paper.
        knowing: value under the strongest of all attacks that were tried; None where only the paper's was.
        by: which attack that is; empty where there is none.
        paper_interval: 95 % interval of the value over the updates; None where there is none.
        knowing_interval: the same of the other value.
        difference: 95 % interval of knowing minus paper, in pairs over the updates; None where there is none.
        clusters: number of updates; None where it is not known.
    """

    row: RowKeys
    metric: str
    unit: str
    better: str
    paper: float | None
    knowing: float | None
    by: str = ""
    paper_interval: Interval | None = None
    knowing_interval: Interval | None = None
    difference: Interval | None = None
    clusters: int | None = None

    @property
    def leaks_more(self) -> bool | None:
        """Whether the knowing attacker sees more; False: no difference seen; None where that cannot be said."""
        if self.knowing is None or not self.better or self.difference is None:
            return None
        low, high = self.difference
        return high < 0 if self.better == "higher" else low > 0


def attacker_pairs(results: ResultTable) -> tuple[AttackerPair, ...]:
    """Pair an item's rows of both attackers by row and metric.

    Where the table has medians (metrics that end in ``_median``), only they are paired; points of curves never are.
    Rows for which nothing but the paper's attack was tried stay in as reference. If that is all there is: no pair.
    """
    rows = results.select(variant=AS_DESCRIBED).rows
    shown = [row for row in rows if not row.is_point]
    shown = [row for row in shown if row.metric.endswith(MEDIAN)] or shown
    own = [row for row in shown if not row.aside]
    several = contested(results)
    knowing = {_pair_key(row): row for row in own if row.attacker == KNOWING and setting_of(row) in several}
    if not knowing:
        return ()
    # a difference that belongs to one attacker is to a guess, or to no defense
    differences = {_pair_key(row): row for row in shown if row.aside == (DIFFERENCE,) and not row.attacker}
    return tuple(
        _pair(row, knowing.get(_pair_key(row)), differences.get(_pair_key(row))) for row in own if row.attacker == PAPER
    )


def _pair_key(row: ResultRow) -> tuple[str, str]:
    return identity({key: value for key, value in row.row.items() if key not in (BY, DIFFERENCE)}), row.metric


def _pair(paper: ResultRow, knowing: ResultRow | None, difference: ResultRow | None) -> AttackerPair:
    # of one and the same run there is nothing to pair
    same = knowing is not None and knowing.runs == paper.runs
    return AttackerPair(
        row=paper.row,
        metric=paper.metric,
        unit=paper.unit,
        better=paper.better,
        paper=paper.value,
        knowing=knowing.value if knowing else None,
        by=str(knowing.row.get(BY, "")) if knowing else "",
        paper_interval=_interval(paper),
        knowing_interval=_interval(knowing) if knowing else None,
        difference=(0.0, 0.0) if same else _interval(difference) if difference else None,
        clusters=paper.clusters,
    )


def _interval(row: ResultRow) -> Interval | None:
    return None if row.ci_low is None or row.ci_high is None else (row.ci_low, row.ci_high)
