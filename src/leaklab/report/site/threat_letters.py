"""What each attack of an item has to know: the letter of its threat model, on the item's page and in its table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from leaklab.items.expand import PlannedRun
from leaklab.observations.letters import LETTERS, letter_of
from leaklab.report.site.headlines import ATTACKERS
from leaklab.report.tables.layout import Grid
from leaklab.specs.base import Spec, run_id

FILE = "threat-models.csv"
"""What the attacker of every row has to know, beside the tables (``letters_of_rows``)."""
THREAT_MODEL = "threat model"


@dataclass(frozen=True)
class ThreatModel:
    """An attack with the letter that its facts add up to.

    Attributes:
        attack: plug-in of ``attacks/`` or ``attacks/text/``.
        transform: plug-in of ``attacks/adaptive/``; empty for none.
        attackers: whose it is: ``paper``, ``blind`` or ``knowing``, in that order; empty where an item names none.
        letter: ``A`` to ``H``, with ``+y`` for granted labels, ``+d`` for knowing the defense and ``+p`` for data of
            others.
        has: what the letter stands for.
        data: what those data are; empty for none.
    """

    attack: str
    transform: str
    attackers: tuple[str, ...]
    letter: str
    has: str
    data: str = ""


def threat_models(runs: Iterable[PlannedRun]) -> tuple[ThreatModel, ...]:
    """Return the attacks among an item's runs, each once with each letter and data, the weakest letter first."""
    whose: dict[tuple[str, str, str, str], set[str]] = {}
    for run in runs:
        if attack := run.tried:
            key = (str(letter_of(attack)), attack.attack.name, attack.adaptive, attack.public_data)
            whose.setdefault(key, set()).add(run.attacker)
    return tuple(
        ThreatModel(
            attack, transform, tuple(name for name in ATTACKERS if name in found), letters, LETTERS[letters[0]], data
        )
        for (letters, attack, transform, data), found in sorted(whose.items())
    )


def with_letters(grid: Grid, runs: Iterable[PlannedRun], named: Callable[[Spec], str] = run_id) -> Grid:
    """Return a table with the letters of the attacks behind its numbers.

    They stand beside the rows; where all rows have the same, in a note below. Other tables stay as they are.

    Args:
        grid: the table.
        runs: of its item.
        named: returns their ids, where somebody knows them.
    """
    letters = {named(run.spec): str(letter_of(run.tried)) for run in runs if run.spec and run.tried}
    behind = [[cell.result.runs[0] for cell in row if cell.result and cell.result.runs] for row in grid.cells]
    of_rows = [", ".join(dict.fromkeys(letters[one] for one in row if one in letters)) for row in behind]
    different = set(filter(None, of_rows))
    if len(different) < 2:
        return replace(grid, notes=(*grid.notes, *(f"{THREAT_MODEL}: {text}" for text in different)))
    labels = tuple((*own, text) for own, text in zip(grid.row_labels, of_rows, strict=True))
    return replace(grid, row_titles=(*grid.row_titles, THREAT_MODEL), row_labels=labels)
