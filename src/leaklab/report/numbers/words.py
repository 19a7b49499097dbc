"""What a result table lacks, in sentences: numbers that were not run, runs that diverged, updates that say nothing."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from leaklab.items.layouts import MINUS as MINUS
from leaklab.items.layouts import Named
from leaklab.metrics.silence import NO_INFORMATION_CARD
from leaklab.records.errors import UserError
from leaklab.report.numbers.results import (
    AS_DESCRIBED,
    ASIDE,
    DIFFERENCE,
    SELECTION,
    TRIED,
    ResultRow,
    ResultTable,
    RowKeys,
)

MOST_NAMED = 4
LOST = {
    "diverged_runs": "runs that diverged",
    "capped_runs": "runs that did not reach the target",
    NO_INFORMATION_CARD.name: "updates that say nothing of their samples",
}
UNANSWERED = ("not guessed", "proves nothing")
"""Words of numbers that an attack does not give by its nature."""


def gaps(results: ResultTable, shown: Collection[str] | None = None) -> tuple[str, ...]:
    """Return one sentence per reason why numbers are missing, then one per kind of lost replicates or updates.

    Points of curves are left out: the number of their own that belongs to them says the same.

    Args:
        results: of an item.
        shown: metrics of the table below which the sentences stand; what an attack does not answer is said only there
            where it is asked. None for all.
    """
    rows = [row for row in results.rows if not row.is_point and not _is_unasked(row, shown)]
    return (*_without_value(rows), *filter(None, (_lost(rows, metric, words) for metric, words in LOST.items())))


def _is_unasked(row: ResultRow, shown: Collection[str] | None) -> bool:
    return shown is not None and row.metric not in shown and word_of(row) in UNANSWERED


def word_of(row: ResultRow) -> str:
    """Return why a row has no value in a word or two, e.g. ``not run``; empty where it does not say."""
    return row.note.partition(":")[0]


def keys_text(row: RowKeys) -> str:
    """Return a row's keys as e.g. ``model cnn, perturbation true``."""
    return ", ".join(f"{key} {str(value).lower() if isinstance(value, bool) else value}" for key, value in row.items())


def _without_value(rows: Iterable[ResultRow]) -> list[str]:
    cells: dict[str, list[ResultRow]] = {}
    for row in rows:
        # lost replicates are counted below, cell by cell
        if row.value is None and row.note and word_of(row) not in ("diverged", "capped"):
            cells.setdefault(row.note, []).append(row)
    return [f"{note} ({_numbers(of_note)})" for note, of_note in cells.items()]


def _lost(rows: Iterable[ResultRow], metric: str, words: str) -> str:
    # what several attackers lack in a cell is said once
    cells = list(dict.fromkeys(_count(row) for row in rows if row.metric == metric and row.value))
    if not cells:
        return ""
    more = [f"and in {len(cells) - MOST_NAMED} more cells"] if len(cells) > MOST_NAMED else []
    return f"{words}: {'; '.join([*cells[:MOST_NAMED], *more])}"


def _count(row: ResultRow) -> str:
    keys = keys_text({key: value for key, value in row.row.items() if key not in ASIDE})
    return f"{row.value:.0f} of {row.n} at {keys}{_draw(row)}"


def _draw(row: ResultRow) -> str:
    return "" if row.variant == AS_DESCRIBED else f" ({row.variant})"


def _numbers(rows: Sequence[ResultRow]) -> str:
    """Return how many numbers there are and which keys they share, e.g. ``6 numbers: dataset cifar100``."""
    shared = {key: value for key, value in rows[0].row.items() if all(row.row.get(key) == value for row in rows)}
    count = f"{len(rows)} number{'' if len(rows) == 1 else 's'}"
    return f"{count}: {keys_text(shared)}" if shared else count


# What numbers rest on, in words: how many updates or seeds, and what stood in for what.

REDUCED = "reduced setting of scale"
"""How the stand-in of a setting begins; the scale's own note says more."""


def stand_ins(rows: Iterable[ResultRow]) -> tuple[str, ...]:
    """Return what stood in for what in some row, once, without the settings that a scale reduced."""
    names = dict.fromkeys(name for row in rows for name in row.substitutes)
    return tuple(name for name in names if not name.startswith(REDUCED))


def sampled(rows: Iterable[ResultRow]) -> str:
    """Return how much stands behind one number: ``3 seeds``, ``20 updates``, ``8 values of 2 updates``.

    Attackers' numbers rest on updates; of the others those that have a better side on seeds, as trainings do, and the
    rest on repetitions. Empty where nothing was sampled, or once without repeating.
    """
    found = [row for row in rows if row.value is not None and row.n and row.clusters and not row.aside]
    if not found:
        return ""
    values, clusters = [row.n or 0 for row in found], [row.clusters or 0 for row in found]
    if any(row.attacker for row in found):
        word = "update"
    elif any(row.better for row in found):
        word = "seed"
    elif max(values) > 1:
        word = "repetition"
    else:
        return ""
    independent = f"{_span(clusters)} {word}{'' if max(clusters) == 1 else 's'}"
    return independent if values == clusters else f"{_span(values)} values of {independent}"


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


# Numbers that a claim needs and the results do not have.


class NumberMissingError(Exception):
    """The numbers that a claim needs are not there; the message says which.

    Attributes:
        note: why, where the results say so (``not run: data not here: ImageNet``); else empty.
    """

    def __init__(self, message: str, note: str = ""):
        super().__init__(f"{message}: {note}" if note else message)
        self.note = note

    @property
    def short(self) -> str:
        """The reason for a reader who knows which case is meant."""
        return self.note or str(self)


class MissingNumber:
    """Stands where a number should be; whoever compares it or computes with it gets the error that it holds.

    A question about many numbers can so be answered for those that are there.
    """

    def __init__(self, error: NumberMissingError):
        self.error = error

    def __repr__(self) -> str:
        return "missing"

    def _refuse(self, *_: object) -> NoReturn:
        raise self.error

    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = __round__ = __float__ = __int__ = __bool__ = _refuse


# Why a metric has no numbers, for who reads them elsewhere: without addresses and errors of where it was computed.

# what data/download.py says to who computes
NO_DOWNLOAD = re.compile(r"https?://\S*/([\w.-]+) cannot be downloaded \(.*?\): put it into \S+ by hand or set \w+")


def unavailable(cards: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return metric -> reason of the metrics that a scoring could not load, from the content of its ``cards.json``."""
    return {
        metric: NO_DOWNLOAD.sub(r"the weights \1 could not be had where this was made", reason)
        for metric, reason in cards["not_available"].items()
    }


# Where a number belongs among others: the values of its keys, their order and their shown names.

OWN_CHOICE = "own choice"
# values tagged by whether they are booleans, because true and 1 are the same dictionary key
Place = tuple[tuple[bool, Any], ...]


def place_of(row: ResultRow, keys: Sequence[str]) -> Place:
    """Return the values of a row's keys; ``metric`` and ``attacker`` are keys too.

    Raises:
        UserError: the row lacks a key.
    """
    special = {"metric": row.metric, "attacker": row.attacker, SELECTION: OWN_CHOICE, TRIED: "", DIFFERENCE: ""}
    values: Mapping[str, Any] = {**special, **row.row}
    absent = [key for key in keys if key not in values]
    if absent:
        raise UserError(
            f"{row.paper} {row.item}: a row has no key {', '.join(absent)}: name only its keys in the layout, or leave "
            "such rows out with 'where'"
        )
    return tuple((isinstance(values[key], bool), values[key]) for key in keys)


def in_order(layout: Named, metrics: Sequence[str], keys: Sequence[str], places: Sequence[Place]) -> list[Place]:
    """Sort numbers and booleans by value; names stay in the order of their labels, else of their appearance."""
    orders = [_order(layout, metrics, key, [place[depth] for place in places]) for depth, key in enumerate(keys)]
    unique = list(dict.fromkeys(places))
    return sorted(unique, key=lambda place: tuple(order[value] for order, value in zip(orders, place, strict=True)))


def labels_of(layout: Named, keys: Sequence[str], place: Place) -> tuple[str, ...]:
    """Return the shown names of a place's values."""
    return tuple(layout.label(key, value) for key, (_, value) in zip(keys, place, strict=True))


def _order(layout: Named, metrics: Sequence[str], key: str, values: list[Any]) -> dict[Any, int]:
    found = list(dict.fromkeys(values))
    if key == "metric":
        found.sort(key=lambda value: metrics.index(value[1]))
    elif all(isinstance(value, int | float) for _, value in found):
        found.sort(key=lambda value: value[1])
    elif key in layout.labels:
        names = list(layout.labels[key])
        found.sort(key=lambda value: names.index(value[1]) if value[1] in names else len(names))
    return {value: place for place, value in enumerate(found)}


# Which of several images stands for all in a picture.


def typical(values: Mapping[int, float]) -> int:
    """Return the image whose value is the median, of an even number the lower one of the two in the middle."""
    ordered = sorted(values, key=lambda image: (values[image], image))
    return ordered[(len(ordered) - 1) // 2]


# Signs that all renderers share; none of them relies on color.

NONE = "\u2013"
TIMES = "\u00d7"
MARKS = {"best": "▲", "worst": "▼", "": ""}
WITHIN = {"yes": "✓", "no": "✗"}
STATES = {"done": "●", "not run": "○", "planned": "◌"}
