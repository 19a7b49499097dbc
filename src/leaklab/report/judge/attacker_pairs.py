"""The attacker of the paper and the one who knows the defense, number by number."""

from dataclasses import dataclass

from leaklab.report.numbers.results import ADAPTIVE, AS_DESCRIBED, AS_PRINTED, ResultRow, ResultTable, RowKeys, identity

Interval = tuple[float, float]
MEDIAN = "_median"


@dataclass(frozen=True)
class AttackerPair:
    """One number under the attacker of the paper and under the adaptive one.

    Attributes:
        row: what the number belongs to.
        metric: what was measured.
        unit: of both numbers.
        better: direction in which privacy improves; empty if unknown.
        as_printed: value under the attacker that the paper used.
        adaptive: value under the worst case over the defense-aware transforms; None where none fits the defense.
        transform: that worst case; empty where there is none.
        as_printed_interval: 95 % interval of the value over images and draws; None where there is none.
        adaptive_interval: the same of the other value.
    """

    row: RowKeys
    metric: str
    unit: str
    better: str
    as_printed: float | None
    adaptive: float | None
    transform: str = ""
    as_printed_interval: Interval | None = None
    adaptive_interval: Interval | None = None

    @property
    def leaks_more(self) -> bool | None:
        """Whether the adaptive attacker sees more; None where that cannot be said."""
        if self.as_printed is None or self.adaptive is None or not self.better:
            return None
        return self.adaptive < self.as_printed if self.better == "higher" else self.adaptive > self.as_printed


def attacker_pairs(results: ResultTable) -> tuple[AttackerPair, ...]:
    """Pair an item's rows of both attackers by row and metric.

    Where the table has medians (metrics that end in ``_median``), only they are paired; points of curves never are.
    Rows without an adaptive partner, such as those without defense, stay in as reference. No adaptive row at all: no
    pair.
    """
    rows = results.select(variant=AS_DESCRIBED).rows
    own = [row for row in rows if "selection" not in row.row and not row.is_point]
    own = [row for row in own if row.metric.endswith(MEDIAN)] or own
    adaptive = {_pair_key(row): row for row in own if row.attacker == ADAPTIVE}
    if not adaptive:
        return ()
    return tuple(_pair(row, adaptive.get(_pair_key(row))) for row in own if row.attacker == AS_PRINTED)


def _pair_key(row: ResultRow) -> tuple[str, str]:
    return identity({key: value for key, value in row.row.items() if key != "transform"}), row.metric


def _pair(printed: ResultRow, adaptive: ResultRow | None) -> AttackerPair:
    return AttackerPair(
        row=printed.row,
        metric=printed.metric,
        unit=printed.unit,
        better=printed.better,
        as_printed=printed.value,
        adaptive=adaptive.value if adaptive else None,
        transform=str(adaptive.row.get("transform", "")) if adaptive else "",
        as_printed_interval=_interval(printed),
        adaptive_interval=_interval(adaptive) if adaptive else None,
    )


def _interval(row: ResultRow) -> Interval | None:
    return None if row.ci_low is None or row.ci_high is None else (row.ci_low, row.ci_high)
