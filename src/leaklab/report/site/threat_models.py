"""What each attack of an item has to know: the letter of its threat model, on the item's page and in its table."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from leaklab.planning.threat_letters import LETTERS, letter
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.expand import PlannedRun
from leaklab.records.ids import run_id
from leaklab.records.landscape_spec import LandscapeSpec
from leaklab.report.site.words import ATTACKERS
from leaklab.report.tables.layout import Grid

NO_TRANSFORM = "none"
LETTERED = ScoreSpec | LandscapeSpec
THREAT_MODEL = "threat model"


@dataclass(frozen=True)
class ThreatModel:
    """An attack with the letter that its facts add up to.

    Attributes:
        attack: plug-in of ``attacks/``.
        transform: plug-in of ``attacks/adaptive/``; empty for none.
        attackers: whose it is: ``paper``, ``blind`` or ``knowing``, in that order; empty where an item names none.
        letter: ``A`` to ``H``, with ``+y`` for granted labels and ``+d`` for knowing the defense.
        has: what the letter stands for.
    """

    attack: str
    transform: str
    attackers: tuple[str, ...]
    letter: str
    has: str


def threat_models(runs: Iterable[PlannedRun]) -> tuple[ThreatModel, ...]:
    """Return the attacks on images among an item's runs, each once with each letter, the weakest letter first."""
    whose: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        if isinstance(run.spec, LETTERED):
            attack = run.spec.attack
            transform = "" if attack.transform.name == NO_TRANSFORM else attack.transform.name
            whose.setdefault((_letter_of(attack), attack.attack.name, transform), set()).add(run.attacker)
    return tuple(
        ThreatModel(attack, transform, tuple(name for name in ATTACKERS if name in found), letters, LETTERS[letters[0]])
        for (letters, attack, transform), found in sorted(whose.items())
    )


def with_letters(grid: Grid, runs: Iterable[PlannedRun]) -> Grid:
    """Return a table with the letters of the attacks behind its numbers.

    They stand beside the rows; where all rows have the same, in a note below. Other tables stay as they are.
    """
    letters = {run_id(run.spec): _letter_of(run.spec.attack) for run in runs if isinstance(run.spec, LETTERED)}
    behind = [[cell.result.runs[0] for cell in row if cell.result and cell.result.runs] for row in grid.cells]
    of_rows = [", ".join(dict.fromkeys(letters[one] for one in row if one in letters)) for row in behind]
    different = set(filter(None, of_rows))
    if len(different) < 2:
        return replace(grid, notes=(*grid.notes, *(f"{THREAT_MODEL}: {text}" for text in different)))
    labels = tuple((*own, text) for own, text in zip(grid.row_labels, of_rows, strict=True))
    return replace(grid, row_titles=(*grid.row_titles, THREAT_MODEL), row_labels=labels)


def _letter_of(attack: AttackSpec) -> str:
    """Return the letter of what an attack asks for, given the kind of update and the server of its capture."""
    return letter(
        attack.attack.name,
        attack.attack.settings,
        attack.transform.name,
        attack.capture.kind,
        manipulated=attack.capture.server is not None,
    )
