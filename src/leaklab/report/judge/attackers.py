"""The results under the strongest of all attackers that were run, the paper's included."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    ATTACKERS,
    BLIND,
    BY,
    DIFFERENCE,
    INDEX,
    KNOWING,
    PAPER,
    TRIED,
    UPDATE,
    ResultRow,
    ResultTable,
    RowKeys,
    identity,
    summarised,
)

ATTEMPTS = ("image", "example", "draw", UPDATE, INDEX)
STRONGEST_FIRST = (KNOWING, PAPER, BLIND)

Setting = tuple[str, ...]


def worst_case(results: ResultTable) -> ResultTable:
    """Return the rows with those of one attacker left in each setting: the knowing one's, where there are any.

    A setting is what rows of one metric share besides attacker, attack, image and draw; single updates are one of their
    own, as they have the metric of their mean. Single values that the table does not repeat, because the knowing
    attacker's run is the paper's or the blind one, are found by that run. Where no attacker is known to be the
    strongest (curves), it is the one who knows the defense, else the paper's. ``by`` is taken out of the keys, so that
    a claim finds the row by the paper's own keys.
    """
    # found once: a setting is told by its keys as JSON, and tables have thousands of rows
    settings = [setting_of(row) if row.of_attacker else None for row in results.rows]
    attackers: dict[Setting, set[str]] = {}
    for row, setting in zip(results.rows, settings, strict=True):
        if setting is not None:
            attackers.setdefault(_own_setting(row, setting), set()).add(row.attacker)
    strongest = {setting: next(a for a in STRONGEST_FIRST if a in found) for setting, found in attackers.items()}
    runs = _runs_of_knowing(zip(results.rows, settings, strict=True))

    def left(row: ResultRow, setting: Setting | None) -> bool:
        if setting is None:
            return True
        own = strongest[_own_setting(row, setting)]
        return row.runs == runs[setting] if own != KNOWING and setting in runs else row.attacker == own

    kept = (row for row, setting in zip(results.rows, settings, strict=True) if left(row, setting))
    return ResultTable(tuple(replace(row, row=_without_attempt(row)) for row in kept))


def contested(results: ResultTable) -> frozenset[Setting]:
    """Return the settings in which more than one attack was tried."""
    tried: dict[Setting, set[str]] = {}
    for row in results.rows:
        if TRIED in row.row:
            tried.setdefault(setting_of(row), set()).add(str(row.row[TRIED]))
        elif row.attacker in ATTACKERS[:-1] and row.is_point:
            tried.setdefault(setting_of(row), set()).add(row.attacker)
    return frozenset(setting for setting, names in tried.items() if len(names) > 1)


def knowing_runs(results: ResultTable, *metrics: str) -> frozenset[str]:
    """Return the runs of the knowing attacker in the settings in which more than one attack was tried.

    Args:
        results: of an item.
        metrics: by which it is the strongest: the first that the table has.
    """
    several = contested(results)
    rows = [row for row in _of_attackers(results.rows) if row.attacker == KNOWING and setting_of(row) in several]
    by_metric = ([row for row in rows if summarised(row.metric) == metric] for metric in metrics)
    return frozenset(run for row in next(filter(None, by_metric), []) for run in row.runs)


def setting_of(row: ResultRow) -> Setting:
    """Return what rows of all attackers share that are about the same setting and metric, also of single values."""
    keys = {key: value for key, value in row.row.items() if key not in (*ATTEMPTS, BY, TRIED)}
    return row.paper, row.item, summarised(row.metric), row.variant, identity(keys)


def _own_setting(row: ResultRow, setting: Setting) -> Setting:
    return (*setting, row.metric, UPDATE if UPDATE in row.row else "")


def _of_attackers(rows: Iterable[ResultRow]) -> list[ResultRow]:
    return [row for row in rows if row.of_attacker]


def _runs_of_knowing(rows: Iterable[tuple[ResultRow, Setting | None]]) -> dict[Setting, tuple[str, ...]]:
    """Return the run of the knowing attacker in each setting; where mean and median differ, the median's."""
    found: dict[Setting, tuple[str, ...]] = {}
    for row, setting in rows:
        if setting and row.attacker == KNOWING and (setting not in found or row.metric.endswith("_median")):
            found[setting] = row.runs
    return found


def _without_attempt(row: ResultRow) -> dict[str, object]:
    return {key: value for key, value in row.row.items() if key != BY}


# The attacker of the paper and the knowing one, the strongest of all that were tried, number by number.

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
    def told(self) -> bool:
        """Whether there is a number of either."""
        return self.paper is not None or self.knowing is not None

    @property
    def leaks_more(self) -> bool | None:
        """Whether the knowing attacker sees more; False: no difference seen; None where that cannot be said."""
        if self.knowing is None or not self.better or self.difference is None:
            return None
        low, high = self.difference
        return high < 0 if self.better == "higher" else low > 0


def attacker_pairs(results: ResultTable, several: frozenset[Setting] | None = None) -> tuple[AttackerPair, ...]:
    """Pair an item's rows of both attackers by row and metric.

    Where the table has medians (metrics that end in ``_median``), only they are paired; points of curves never are.
    Rows for which nothing but the paper's attack was tried stay in as reference. If that is all there is: no pair.

    Args:
        results: of an item.
        several: ``contested`` of these rows and of any others, where it is known.
    """
    rows = results.select(variant=AS_DESCRIBED).rows
    shown = [row for row in rows if not row.is_point]
    shown = [row for row in shown if row.metric.endswith(MEDIAN)] or shown
    own = [row for row in shown if not row.aside]
    several = contested(results) if several is None else several
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
