"""The attackers who judged an entry, by the digest of their code, and which older ones read the same.

A change of the attackers' code makes all entries those of older attackers. Most changes leave every reading as it was:
entries of each older version that are judged again tell, and where they are read as before, number by number, all of
that version stand. Which they were is kept beside the entries.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaklab.guests.scoreboard import FOLDER, Entry
from leaklab.records.errors import UserError
from leaklab.records.files import write_json

JUDGE = "leaklab.guests.judge", ("leaklab.guests.judge:judged",)
"""What the digest of the attackers begins at, for ``records.code.digest``."""
LOCK = "attackers.lock"
EVIDENCE = 2
"""Entries of an older version that have to be read as before."""


def readings(entry: Entry) -> dict[str, list[Any]]:
    """Return what every attacker read of every update, by arena and network; what depends on a clock is left out."""
    arenas = entry.card.model_dump(mode="json", by_alias=True)["arenas"]
    return {
        f"{arena}, {network}": [
            {key: row[key] for key in ("attacker", "by", "each", "labels") if key in row} for row in own["rows"]
        ]
        for arena, networks in arenas.items()
        for network, own in networks.items()
    }


def witnesses(entries: Sequence[Entry], now: str) -> dict[str, list[Entry]]:
    """Return which entries are to be judged again, by the digest of their attackers: those whom most of them read."""

    def tried(entry: Entry) -> tuple[int, str]:
        return -sum(len(rows) for rows in readings(entry).values()), entry.name

    older = sorted({one.attackers for one in entries} - {now})
    return {
        digest: sorted((one for one in entries if one.attackers == digest), key=tried)[:EVIDENCE] for digest in older
    }


def same(now: str, folder: Path = FOLDER) -> frozenset[str]:
    """Return the digests of attackers whose entries stand: those of now, and older ones who were seen to read the same.

    Raises:
        UserError: the file of those that were seen cannot be read.
    """
    return frozenset({now, *_seen(now, folder)})


def remember(now: str, older: str, seen: Sequence[str], folder: Path = FOLDER) -> None:
    """Keep that older attackers read what those of now read.

    Args:
        now: digest of this version's attackers.
        older: digest of the others'.
        seen: names of the entries that both read alike.
        folder: of the entries.

    Raises:
        UserError: see ``same``.
    """
    kept = {**_seen(now, folder), older: sorted(seen)}
    write_json(folder / LOCK, {"attackers": now, "same": kept})


def _seen(now: str, folder: Path) -> Mapping[str, Any]:
    file = folder / LOCK
    if not file.exists():
        return {}
    try:
        known = json.loads(file.read_bytes())
        return dict(known["same"]) if known["attackers"] == now else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file}: it cannot be read ({error}): delete it, and judge the entries again") from None
