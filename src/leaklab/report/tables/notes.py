"""What is written below a result table: what stands behind its columns, what was left out, and lines of their own."""

from collections.abc import Iterable, Mapping, Sequence

from leaklab.items.layouts import TableLayout
from leaklab.report.numbers.results import ResultRow
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
    """Return the metrics under ``below``, a sentence each with the columns that their values belong to."""
    found = list(rows)
    return tuple(_line(spec, metric, own) for metric in spec.below if (own := _of(spec, metric, found)))


def _of(spec: TableLayout, metric: str, rows: Sequence[ResultRow]) -> Mapping[Place, ResultRow]:
    own = {place_of(row, spec.columns): row for row in rows if row.metric == metric}
    return {place: own[place] for place in in_order(spec, spec.metrics, spec.columns, list(own))}


def _line(spec: TableLayout, metric: str, rows: Mapping[Place, ResultRow]) -> str:
    cells = [f"{text_of(spec, row)} at {_columns(spec, spec.columns, place)}" for place, row in rows.items()]
    return f"{spec.title(metric)}: {', '.join(cells)}"


def text_of(spec: TableLayout, row: ResultRow) -> str:
    """Return a number in the table's format; where there is none, why (``not run``), or ``–``."""
    return word_of(row) or NONE if row.shown is None else spec.number(row.metric, row.shown, row.std)


def _columns(spec: TableLayout, keys: Sequence[str], place: Place) -> str:
    labels = labels_of(spec, keys, place)
    return ", ".join(heading(spec.title(key), label, " = ") for key, label in zip(keys, labels, strict=True))
