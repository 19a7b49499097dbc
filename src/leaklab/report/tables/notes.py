"""What is written below a result table: what stands behind its columns, what was left out, and lines of their own."""

from collections.abc import Iterable, Sequence

from leaklab.items.layouts import TableLayout
from leaklab.report.numbers.results import BY, ResultRow
from leaklab.report.numbers.words import NONE, Place, in_order, labels_of, place_of, sampled, stand_ins, word_of

SPREAD = "a difference without ✓ or ✗: print itself is unstable there, and only the spread is compared"


def heading(title: str, label: str, joined: str = " ") -> str:
    """Return a column's heading, ``title label`` where the label is a number; a word says itself what it is."""
    return f"{title}{joined}{label}" if label[:1].isdigit() else label


def basis(spec: TableLayout, rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Return what stands behind a number; one sentence, or one for each data set or other named group of columns."""
    keys = tuple(key for key in spec.columns if key not in ("metric", "attacker") and _named(key, rows))
    groups: dict[Place, list[ResultRow]] = {}
    for row in rows:
        if row.value is not None:
            groups.setdefault(place_of(row, keys), []).append(row)
    told = {place: (*stand_ins(own), *filter(None, [sampled(own)])) for place, own in groups.items()}
    if len(set(told.values())) < 2:
        counted = sampled(rows)
        return (f"behind a number: {counted}",) if counted else ()
    ordered = in_order(spec, spec.metrics, keys, list(told))
    return tuple(f"{_columns(spec, keys, place)}: {'; '.join(told[place])}" for place in ordered if told[place])


def _named(key: str, rows: Sequence[ResultRow]) -> bool:
    return all(isinstance(row.row.get(key), str) for row in rows)


def left_out(names: Sequence[str]) -> tuple[str, ...]:
    """Return the sentence that names the columns without any number."""
    return (f"left out, as there is no number: {'; '.join(names)}",) if names else ()


def lines(spec: TableLayout, rows: Iterable[ResultRow]) -> tuple[str, ...]:
    """Return the metrics under ``below``, a sentence each that says at which keys the values are."""
    found = list(rows)
    by_metric = {metric: [row for row in found if row.metric == metric] for metric in spec.below}
    return tuple(_line(spec, metric, own) for metric, own in by_metric.items() if own)


def _line(spec: TableLayout, metric: str, rows: Sequence[ResultRow]) -> str:
    keys = _telling(spec, rows)
    own = {place_of(row, keys): row for row in rows}
    ordered = in_order(spec, spec.metrics, keys, list(own))
    cells = [" at ".join(filter(None, (text_of(spec, own[place]), _columns(spec, keys, place)))) for place in ordered]
    return f"{spec.title(metric)}: {('; ' if len(keys) > 1 else ', ').join(cells)}"


def _telling(spec: TableLayout, rows: Sequence[ResultRow]) -> tuple[str, ...]:
    """Return the keys that tell the rows of one metric apart: those of the columns, and others in which they differ."""
    columns = [key for key in spec.columns if key != "metric"]
    shared = [key for key in rows[0].row if key != BY and all(key in row.row for row in rows)]
    others = [key for key in (*shared, "attacker") if key not in columns]
    return (*columns, *(key for key in others if len({place_of(row, (key,)) for row in rows}) > 1))


def text_of(spec: TableLayout, row: ResultRow) -> str:
    """Return a number in the table's format; where there is none, why (``not run``), or ``–``."""
    return word_of(row) or NONE if row.shown is None else spec.number(row.metric, row.shown, row.std)


def _columns(spec: TableLayout, keys: Sequence[str], place: Place) -> str:
    labels = labels_of(spec, keys, place)
    return ", ".join(heading(spec.title(key), label, " = ") for key, label in zip(keys, labels, strict=True))
