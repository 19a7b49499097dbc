"""What numbers rest on, in words: how many updates or seeds, and what stood in for what."""

from collections.abc import Iterable

from leaklab.report.numbers.results import ResultRow

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
