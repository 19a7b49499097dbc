"""The threat model of every attacker's row of a scale's result tables, in a file beside them.

The tables name runs, the plan says what each of them has to know. A line of the file joins with the lines of a table by
``paper``, ``item``, ``row`` (the same text) and ``attacker``; those of several metrics share it.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leaklab.items.expand import PlannedRun, expand, expand_absent
from leaklab.items.items import Item
from leaklab.observations.letters import LETTERS, letter_of
from leaklab.records import files
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import Source
from leaklab.report.numbers.compact import Cells, unpacked
from leaklab.report.numbers.results import AGAIN, BLIND, KNOWING, PAPER, canonical
from leaklab.report.numbers.results import COLUMNS as OF_TABLES
from leaklab.report.site.headlines import ATTACKERS
from leaklab.report.tables.layout import Grid
from leaklab.specs.base import run_id

KEYS = ("paper", "item", "row", "attacker")
COLUMNS = (*KEYS, "letter", "defense_known", "labels_granted", "public_data", "threat_model", "attacks")
SEVERAL = "; "
_YES_OR_NO = ("no", "yes")
Key = tuple[str, str]
"""Text of ``row``, and the attacker."""


def lines_of(item: Item, scale: Scale, table: Path) -> list[Cells]:
    """Return a line for each attacker's row of an item's table, by ``COLUMNS``; none for a table without attackers.

    A cell that differs between the attacks of a row lists them: ``B; D``.

    Args:
        item: whose table it is.
        scale: of the table.
        table: ``results/<scale>/<paper>/<item>.csv``.

    Raises:
        UserError: the file is damaged, or a row rests on no attack that the item asks for.
    """
    planned = {run_id(run.spec): run for run in expand(item, scale) if run.spec and run.tried}
    found, absent = _runs_by_key(table), _absent(item, scale)
    lines = []
    for (row, attacker), names in found.items():
        gone = [name for name in names if name not in planned]
        runs = [planned[name] for name in names if name in planned] or absent.get((row, attacker), [])
        if gone or not runs:
            raise UserError(
                f"{table}: row {row} of attacker '{attacker}' rests on {gone[0] if gone else 'no run'}, which is no "
                f"attack of config/items/{item.key}.yaml: run snakemake {table}"
            )
        keys = dict(zip(KEYS, (item.paper, item.item, row, attacker), strict=True))
        lines.append({**keys, **_together([_known(run) for run in runs])})
    return lines


def write_lines(path: Path, lines: Iterable[Mapping[str, str]]) -> None:
    """Write the lines of all tables."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    files.write_text(path, buffer.getvalue())


def _runs_by_key(table: Path) -> dict[Key, dict[str, None]]:
    """Return the runs of each attacker's row: of every number the first, whose attack it is; others are compared."""
    found: dict[Key, dict[str, None]] = {}
    try:
        lines = list(files.read_cells(table, OF_TABLES, AGAIN))
        rows = {place: cells["row"] for place, cells in lines}  # unpacked, points and images have keys of their own
        for place, cells in unpacked(lines):
            if cells["attacker"] in (PAPER, BLIND, KNOWING):
                runs = found.setdefault((rows[place], cells["attacker"]), {})
                runs.update(dict.fromkeys(cells["runs"].split("; ")[:1] if cells["runs"] else ()))
    except ValueError as error:
        raise UserError(f"{table}, {error}: {AGAIN}") from None
    return found


def _absent(item: Item, scale: Scale) -> dict[Key, list[PlannedRun]]:
    """Return the attacks that this scale cannot do, by the row that says so."""
    source = Source(item, scale, frozenset(), {}, {})
    found: dict[Key, list[PlannedRun]] = {}
    for run, _ in expand_absent(item, scale):
        if run.tried:
            found.setdefault((canonical(source.row(run)), run.attacker), []).append(run)
    return found


def _known(run: PlannedRun) -> Cells:
    """Return what one attack has to know, by the columns that are no keys."""
    attack = run.tried
    assert attack is not None
    letter = letter_of(attack)
    return {
        "letter": letter.name,
        "defense_known": _YES_OR_NO[letter.defense],
        "labels_granted": _YES_OR_NO[letter.labels],
        "public_data": attack.public_data,
        "threat_model": attack.capture.threat_model,
        "attacks": attack_name(run),
    }


def _together(attacks: Sequence[Cells]) -> Cells:
    """Return the cells of several attacks in one line: a list where they differ, one entry an attack."""
    different = list({tuple(cells.values()): cells for cells in attacks}.values())
    columns = {name: [cells[name] for cells in different] for name in different[0]}
    return {name: of[0] if len(set(of)) == 1 else SEVERAL.join(of) for name, of in columns.items()}


# What each attack of an item has to know: the letter of its threat model, on the item's page and in its table.

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


def with_letters(grid: Grid, runs: Iterable[PlannedRun]) -> Grid:
    """Return a table with the letters of the attacks behind its numbers.

    They stand beside the rows; where all rows have the same, in a note below. Other tables stay as they are.
    """
    letters = {run_id(run.spec): str(letter_of(run.tried)) for run in runs if run.spec and run.tried}
    behind = [[cell.result.runs[0] for cell in row if cell.result and cell.result.runs] for row in grid.cells]
    of_rows = [", ".join(dict.fromkeys(letters[one] for one in row if one in letters)) for row in behind]
    different = set(filter(None, of_rows))
    if len(different) < 2:
        return replace(grid, notes=(*grid.notes, *(f"{THREAT_MODEL}: {text}" for text in different)))
    labels = tuple((*own, text) for own, text in zip(grid.row_labels, of_rows, strict=True))
    return replace(grid, row_titles=(*grid.row_titles, THREAT_MODEL), row_labels=labels)
