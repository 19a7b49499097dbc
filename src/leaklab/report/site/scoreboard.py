"""The scoreboard as a page, as lines for a terminal, and what a user submits to it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leaklab.guests import attackers, scoreboard
from leaklab.guests.scoreboard import BoardLine, Entry
from leaklab.metrics.gains import CLEAR
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.report.numbers.words import NONE

ORIGINS = {"house": "the three papers", "paper": "other papers", "guest": "guests"}
"""Where a defense is from, in words."""


def standings(folder: Path = scoreboard.FOLDER) -> list[BoardLine]:
    """Return the lines of the scoreboard of this checkout, most protection first; none where it has no entries.

    Raises:
        UserError: an entry is not right.
    """
    entries = scoreboard.read_entries(folder)
    return scoreboard.ranked(entries, attackers.same(attackers_digest(), folder)) if entries else []


def attackers_digest() -> str:
    """Return the digest of the code by which this version judges a defense."""
    from leaklab.planning.code import kept_digests

    return kept_digests().digest(*attackers.JUDGE)


def percent(line: BoardLine) -> str:
    """Return what is left of the protection, with its interval where it has one."""
    if line.protection is None:
        return "no premise"
    own = line.protection
    value = f"{abs(round(own.value))} %" if round(own.value) == 0 else f"{own.value:.0f} %"
    return value if own.low is None or own.high is None else f"{value} ({own.low:.0f} to {own.high:.0f})"


def level(line: BoardLine, value: float | None) -> str:
    """Return what is read, in the unit of the line."""
    if value is None:
        return NONE
    return f"{value:.1f} dB" if line.unit == "dB" else f"{value:.0f} %"


def lost(line: BoardLine) -> str:
    """Return the accuracy that a defense costs, in points with their interval."""
    own = line.price
    return NONE if own is None else f"{own['lost']:.1f} ({own['low']:.1f} to {own['high']:.1f})"


def control(line: BoardLine) -> str:
    """Return which noise stands in the defense's place, and whether it protects more; empty where none was tried."""
    return f"{line.noise_name}{', which protects more' if line.better_noise else ''}"


def record(line: BoardLine) -> dict[str, Any]:
    """Return a line as JSON-able data."""
    own = line.protection
    return {
        "name": line.entry.name, "title": line.entry.title, "origin": line.entry.origin, "source": line.entry.source,
        "verdict": line.entry.card.verdict, "arena": line.arena, "network": line.network, "unit": line.unit,
        "strongest attacker": line.attacker, "read": line.read, "undefended": line.undefended, "guess": line.guess,
        "protection left": None if own is None else {"percent": own.value, "low": own.low, "high": own.high},
        "price": line.price, "noise": {"of": line.noise_name, "read": line.noise, "protects more": line.better_noise},
        "tried": list(line.tried), "current": line.current, "again": scoreboard.command_of(line.entry),
    }  # fmt: skip


FILTERS: Mapping[str, Callable[..., Any]] = {
    "left": percent, "level": level, "lost": lost, "control": control,
    "again": lambda line: scoreboard.command_of(line.entry),
}  # fmt: skip
"""What the template calls."""


def page(lines: Sequence[BoardLine]) -> dict[str, Any]:
    """Return what the template of the page is given."""
    arenas = dict.fromkeys(line.arena for line in lines)
    return {
        "arenas": {arena: [one for one in lines if one.arena == arena] for arena in arenas},
        "origins": ORIGINS,
        "clear": f"{CLEAR:g}",
    }


def lines_of(lines: Sequence[BoardLine]) -> Iterator[str]:
    """Yield the scoreboard for a terminal."""
    for line in lines:
        yield f"{percent(line):>18} left  {line.entry.title}"
        mark = "" if line.current else "; judged with older attackers"
        read = (
            f"{level(line, line.read)} read ({line.attacker or 'by nobody'}), {level(line, line.undefended)} without it"
        )
        yield f"{'':24}{read} (arena {line.arena}, {line.network}); accuracy lost: {lost(line)} points{mark}"


def submission(card: Path, file: Path, *, title: str, source: str, name: str = "", origin: str = "guest") -> Entry:
    """Return the entry of a card.

    Raises:
        UserError: the card cannot be read, is of another file, or is not whole.
    """
    from leaklab.guests.files import find

    try:
        data = json.loads(card.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{card}: it is no card ({error}): `leaklab try FILE --out FOLDER` writes card.json") from None
    subject = data.get("subject") if isinstance(data, Mapping) else None
    if not isinstance(subject, Mapping):
        raise UserError(f"{card}: it is no card of a defense: `leaklab try FILE --out FOLDER` writes card.json")
    other = UserError(f"{card} is the card of another file: judge this one with `leaklab try {file}`")
    try:
        guest = find(file, str(subject.get("name", "")))
    except UserError:
        raise other from None
    if guest.sha256 != subject.get("sha256"):
        raise other
    try:
        place = file.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        raise UserError(f"{file} lies outside of this repository: copy it to {scoreboard.FOLDER}") from None
    return scoreboard.entry_of(
        data, name=name or file.stem.replace("_", "-").lower(), title=title, origin=origin, source=source, file=place,
        attackers=attackers_digest(),
    )  # fmt: skip


def written(entry: Entry, folder: Path) -> Path:
    """Write an entry into a folder of entries and return its file; an older one of the same defense gives way.

    Raises:
        UserError: another defense has its name.
    """
    target = folder / f"{entry.name}.json"
    if any(one.name == entry.name and one.file != entry.file for one in scoreboard.read_entries(folder)):
        raise UserError(f"{target} is another defense's: give this one a --name of its own")
    write_json(target, entry.model_dump(mode="json", by_alias=True))
    return target
