"""The scoreboard: entries of defenses with their cards, each checked against its own rows before it is shown.

An entry is one JSON file, ``leaklab-entry/1``, beside which the defense's own file stands in the repository. Whoever
reads it can have it judged again: the card names arena and seed, the entry the code of the attackers who were tried.
"""

import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import Field, ValidationError

from leaklab.guests.card import SHOWN, asked_for, networks_of
from leaklab.guests.schema import CardData, Part
from leaklab.guests.verdict import ATTACKS, LEAST, STATUS, worst
from leaklab.metrics.gains import BARS, CLEAR
from leaklab.metrics.protection import ProtectionLeft, protection_left
from leaklab.records.errors import UserError
from leaklab.records.kept_json import KEPT, KeptResults, hash_of_package, key_of

SCHEMA = "leaklab-entry/1"
FOLDER = Path("results/scoreboard")
ROUNDED = 0.02
"""How far a number of a card may be from what its own rows give: both were rounded to 0.01."""
NOISES = ("noise of the same price", "noise")
"""Controls, the fairer one first: noise that costs a training as much, and noise of the same energy."""


class Entry(Part):
    """A defense on the scoreboard."""

    schema_: Literal["leaklab-entry/1"] = Field(alias="schema")
    name: str = Field(pattern="^[a-z0-9][a-z0-9-]{0,39}$", description="that of its file, and of its line")
    title: str = Field(min_length=1, max_length=80, description="as people call it, with its settings")
    origin: Literal["house", "paper", "guest"] = Field(
        description="house: what the three papers are about or compare with; paper: of another one; guest: a user's own"
    )
    source: str = Field(min_length=1, max_length=300, description="where it is described")
    file: str = Field(pattern=r"^(\w[\w-]*/)*\w[\w-]*\.py$", description="its path in the repository")
    attackers: str = Field(pattern="^[0-9a-f]{16}$", description="digest of the code that attacked it")
    card: CardData
    digest: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of all the rest, as JSON with sorted keys")


@dataclass(frozen=True)
class BoardLine:
    """What an entry's line shows: its weakest network, by the strongest attacker.

    Attributes:
        entry: whose it is.
        arena: in which it was judged.
        network: on which least protection is left.
        attacker: who read most there, in words; empty where nobody had a turn.
        read: what he read, in ``unit``.
        undefended: what is read without a defense.
        guess: what the best guess has.
        unit: ``dB`` or ``%``.
        protection: what is left of it; None where the undefended attack gains nothing.
        price: of the card; None where it was not measured.
        noise: what is read of noise of the same price, or of the same energy, by its name; None where none was tried.
        noise_name: which of both.
        better_noise: whether that noise protects at least as much by the whole bar.
        current: whether the attackers are those of this version.
        tried: who was tried.
    """

    entry: Entry
    arena: str
    network: str
    attacker: str
    read: float | None
    undefended: float | None
    guess: float
    unit: str
    protection: ProtectionLeft | None
    price: Mapping[str, Any] | None
    noise: float | None
    noise_name: str
    better_noise: bool
    current: bool
    tried: tuple[str, ...]


def entry_of(
    card: Mapping[str, Any], *, name: str, title: str, origin: str, source: str, file: str, attackers: str
) -> Entry:
    """Return an entry, with its digest.

    Raises:
        UserError: the card is not whole, or a field is not as ``Entry`` wants it.
    """
    if card.get("ended") != "complete" or card.get("verdict") == "invalid":
        raise UserError(f"the card is not whole (ended: {card.get('ended')}, {card.get('verdict')}): run `leaklab try` "
                        "with a larger --budget until all attackers had their turn")  # fmt: skip
    data = {
        "schema": SCHEMA, "name": name, "title": title, "origin": origin, "source": source, "file": file,
        "attackers": attackers, "card": _whole(card, name),
    }  # fmt: skip
    return checked({**data, "digest": _digest(data)}, name)


def _whole(card: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a card with everything that its schema has."""
    try:
        return CardData.model_validate(card).model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{where}: the card is not of its schema: {first['loc'][-1]}: {first['msg']}") from None


def checked(data: Any, where: str) -> Entry:
    """Return an entry after everything that can be checked without running anything was checked.

    Args:
        data: as read from JSON.
        where: how a complaint names it.

    Raises:
        UserError: the schema is another, a field is wrong, it was changed by hand, or says what its rows do not say.
    """
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        own = data.get("schema") if isinstance(data, Mapping) else None
        raise UserError(f"{where}: its schema is {own!r}, this version reads {SCHEMA}: make it with `leaklab submit`")
    try:
        entry = Entry.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(one) for one in first["loc"])
        raise UserError(f"{where}: {place}: {first['msg']}; make it with `leaklab submit`") from None
    if _digest({key: value for key, value in data.items() if key != "digest"}) != entry.digest:
        raise UserError(f"{where}: it was changed after it was made (digest): make it again with `leaklab submit`")
    if wrong := next(_contradictions(data["card"]), None):
        raise UserError(f"{where}: {wrong}, which its own rows do not say: make it again with `leaklab try`")
    return entry


def read_entries(folder: Path = FOLDER) -> list[Entry]:
    """Return all entries of a folder by name.

    Raises:
        UserError: one cannot be read, is not right (``checked``), or does not bear the name of its file.
    """
    found: list[Entry] = []
    for file in sorted(folder.glob("*.json")):
        try:
            data = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: it cannot be read ({error}): make it again with `leaklab submit`") from None
        entry = checked(data, str(file))
        if entry.name != file.stem:
            raise UserError(f"{file}: its name is '{entry.name}': call the file {entry.name}.json, one file a name")
        found.append(entry)
    return found


def _digest(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _contradictions(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a card claims against its own rows."""
    words = []
    for arena in card["arenas"].values():
        for network, own in arena.items():
            yield from (f"'{row['by']}' on the {network} {said}" for row in own["rows"] for said in _row(row, own))
            if (word := _word(own)) != own["verdict"]:
                yield f"the {network} says '{own['verdict']}' in place of '{word}'"
            words.append(own["verdict"])
    if not words or worst(words) != card["verdict"] or STATUS[card["verdict"]] != card["status"]:
        yield f"the card says '{card['verdict']}'"


def _row(row: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[str]:
    if "each" not in row:
        return
    mean = row["psnr"] if own["unit"] == "dB" else row["tokens"]
    if len(row["each"]) != own["updates"]:
        yield f"has {len(row['each'])} of {own['updates']} updates"
    elif mean is None or abs(fmean(row["each"]) - mean) > ROUNDED:
        yield f"claims a mean of {mean}"
    elif abs(mean - _guess(own) - row["gain"]) > ROUNDED:
        yield f"claims a gain of {row['gain']}"
    elif row["low"] is not None and not row["low"] <= row["gain"] <= row["high"] and row["gain"] < CLEAR:
        yield "claims a gain outside of its interval"


def _word(own: Mapping[str, Any]) -> str:
    """Return the word that the rows of one network give; the rule of ``verdict.word_of``, from intervals."""
    if own["control"] is False:
        return "invalid"
    rows, bar = [row for row in own["rows"] if "each" in row], BARS[own["unit"]]
    plain = next((row for row in rows if row["attacker"] == "undefended"), None)
    if plain is None:
        return "undecided"
    if not (plain["low"] is not None and plain["low"] > bar):
        return "no premise"
    tried = [row for row in rows if row["attacker"] in ATTACKS]
    if own["updates"] >= LEAST and any(row["low"] is not None and row["low"] > bar for row in tried):
        return "read"
    failed = any("not run" in row and row["attacker"] in ATTACKS for row in own["rows"])
    whole = own["complete"] and bool(tried) and not failed and own["updates"] >= LEAST
    missed = all(row["high"] is not None and row["high"] < bar for row in tried)
    return "stood" if whole and missed else "undecided"


def _guess(own: Mapping[str, Any]) -> float:
    return float(own["guess_psnr"] if own["unit"] == "dB" else own["guess_tokens"])


def line_of(entry: Entry, attackers: Container[str]) -> BoardLine:
    """Return an entry's line: where least protection is left; ``attackers`` are the digests of ``attackers.same``."""
    card = entry.card.model_dump(mode="json", by_alias=True)
    (arena,) = card["arenas"]
    lines = [_on(entry, arena, network, own, attackers) for network, own in networks_of(card).items()]
    prices = [one.price for one in lines if one.price]
    least = min(lines, key=lambda one: one.protection.value if one.protection else float("inf"))
    return least if least.price or not prices else BoardLine(**{**vars(least), "price": prices[0]})


def _on(entry: Entry, arena: str, network: str, own: Mapping[str, Any], attackers: Container[str]) -> BoardLine:
    rows = [row for row in own["rows"] if "each" in row]
    plain = next((row for row in rows if row["attacker"] == "undefended"), None)
    tried = [row for row in rows if row["attacker"] in ATTACKS]
    best = max(tried, key=lambda row: float(row["gain"]), default=None)
    noise = next((row for name in NOISES for row in rows if row["attacker"] == name), None)
    unit, guess = own["unit"], _guess(own)

    def level(row: Mapping[str, Any] | None) -> float | None:
        return None if row is None else float(row["psnr"] if unit == "dB" else row["tokens"])

    gains = [0.0 if row is None else float(row["gain"]) for row in (best, noise)]
    better = noise is not None and gains[0] - max(gains[1], 0.0) >= BARS[unit]
    return BoardLine(
        entry, arena, network, "" if best is None else f"{SHOWN[best['attacker']].partition(', ')[2]} ({best['by']})",
        level(best), level(plain), guess, unit, _protection(plain, best, guess, unit), own["price"], level(noise),
        "" if noise is None else SHOWN[noise["attacker"]], better, entry.attackers in attackers,
        tuple(dict.fromkeys(row["by"] for row in tried)),
    )  # fmt: skip


def _protection(
    plain: Mapping[str, Any] | None, best: Mapping[str, Any] | None, guess: float, unit: str
) -> ProtectionLeft | None:
    """Return what is left of the way from no defense to a guess; no update counts for more than ``CLEAR``."""
    if plain is None or best is None:
        return None
    most = guess + CLEAR if unit == "dB" else 100.0
    levels = [[min(one, most) for one in row["each"]] for row in (plain, best)]

    def left() -> list[float | None] | None:
        found = protection_left(levels[0], levels[1], [guess] * len(levels[0]), "lower", median=False)
        return None if found is None else [found.value, found.low, found.high]

    kept = _protections().of([*levels, guess], left)
    return None if kept is None else ProtectionLeft(*kept)


@cache
def _protections() -> KeptResults:
    """Return the protections that are known: to import what resamples takes longer than all else of the page."""
    return KeptResults(KEPT / "protections.json", key_of([hash_of_package(), version("numpy"), version("scipy")]))


def command_of(entry: Entry) -> str:
    """Return the command that judges an entry again."""
    card = entry.card.model_dump(mode="json", by_alias=True)
    seed = f" --seed {card['seed']}" if card["seed"] else ""
    return f"leaklab try {entry.file}{asked_for(card)}{seed} --budget 30m --json"


def schema() -> dict[str, Any]:
    """Return the JSON schema of an entry."""
    return Entry.model_json_schema(by_alias=True)


def ranked(entries: Sequence[Entry], attackers: Container[str]) -> list[BoardLine]:
    """Return the lines of all entries: most protection first, then least accuracy lost; without a premise last."""
    lines = [line_of(entry, attackers) for entry in entries]
    _protections().save()

    def place(line: BoardLine) -> tuple[float, float, str]:
        left = round(line.protection.value) if line.protection else float("-inf")
        return -left, line.price["lost"] if line.price else float("inf"), line.entry.name

    return sorted(lines, key=place)
