"""What a result table lacks, in sentences: numbers that were not run, runs that diverged, updates that say nothing."""

from collections.abc import Collection, Iterable, Sequence

from leaklab.metrics.silence import NO_INFORMATION_CARD
from leaklab.report.numbers.results import AS_DESCRIBED, ASIDE, ResultRow, ResultTable, RowKeys

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
