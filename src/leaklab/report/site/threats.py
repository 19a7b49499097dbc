"""The threat model of every attacker's row of a scale's result tables, in a file beside them.

The tables name runs, the plan says what each of them has to know. A line of the file joins with the lines of a table by
``paper``, ``item``, ``row`` (the same text) and ``attacker``; those of several metrics share it.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leaklab.items.expand import PlannedRun, expand, expand_absent
from leaklab.items.items import Item
from leaklab.observations.letters import letter_of
from leaklab.records import files
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import Source
from leaklab.report.numbers.compact import Cells, unpacked
from leaklab.report.numbers.results import AGAIN, BLIND, KNOWING, PAPER, canonical
from leaklab.report.numbers.results import COLUMNS as OF_TABLES
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
