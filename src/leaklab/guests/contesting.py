"""``leaklab try`` of an attack: where it reads more than the strongest attacker of the house, by paired differences."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from leaklab.guests.arenas import DEFAULT, Arena, find
from leaklab.guests.child import CutOffError, in_child
from leaklab.guests.files import Guest
from leaklab.guests.judging import Watch, heard
from leaklab.guests.peeking import refuse_peeking
from leaklab.metrics.gains import half_width, rounded
from leaklab.records.errors import UserError
from leaklab.records.files import write_text

HOUSE, GUEST = "leaklab.guests.contest:contested", "leaklab.guests.attempt:attempted"
SCHEMA = "leaklab-contest/1"
_TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Contest:
    """What an attack read beside the strongest of the house.

    Attributes:
        data: for programs: who, and for each network and defense the readings in dB.
    """

    data: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(_lines(self.data))

    def json(self) -> str:
        """Return the data as indented JSON with sorted keys."""
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False)

    def write(self, folder: Path) -> None:
        """Write ``contest.json`` and ``contest.md``."""
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "contest.json", self.json() + "\n")
        write_text(folder / "contest.md", "\n".join(_markdown(self.data)) + "\n")


def contest(guest: Guest, seconds: float, seed: int, watch: Watch, arena: Arena | None = None) -> Contest:
    """Let an attack read updates without a defense and with each of the house's, beside the attackers of the house.

    Args:
        guest: an attack.
        seconds: of the budget; what is ready by then is in the result.
        seed: of everything that is drawn.
        watch: told what happens.
        arena: where; None for the default.

    Raises:
        UserError: the file may not run, or fails on import; or the arena has sentences.
    """
    refuse_peeking(guest.file)
    arena = arena or find(DEFAULT)
    if arena.file.sentences:
        raise UserError(f"{guest.file}: attacks are held against each other on images: choose another --arena")
    rows: list[dict[str, Any]] = []
    stop, until = Event(), time.monotonic() + seconds

    def row(one: dict[str, Any]) -> None:
        rows.append(one)
        watch.row(one)

    with heard() as check, TemporaryDirectory(prefix="leaklab-") as folder, ThreadPoolExecutor(4) as pool:
        waiting: set[Future[bool]] = set()
        for network in arena.file.networks:
            place = Path(folder, network)
            place.mkdir()
            common = {"folder": str(place), "seed": seed}
            house = {**common, "network": network, "arena": arena.given, "arena_name": arena.name}
            theirs = {**common, "evaluations": arena.file.evaluations, "sha256": guest.sha256}
            child = partial(in_child, file=guest.file, on_row=row, stopped=stop.is_set)
            told = partial(watch.phase, network)
            waiting.add(pool.submit(_whole, partial(child, HOUSE, arguments=house, on_phase=told), until))
            waiting.add(pool.submit(_whole, partial(child, GUEST, arguments=theirs), until))
        ended, began = "complete", time.monotonic()
        try:
            while waiting:
                done, waiting = wait(waiting, _TICK_SECONDS, FIRST_COMPLETED)
                if not all(one.result() for one in done):
                    ended = "budget"
                check()
                watch.spent(time.monotonic() - began)
        except BaseException as error:
            stop.set()
            # what was read by then is kept, where there is any
            if not isinstance(error, UserError | KeyboardInterrupt) or not any(map(_of_guest, rows)):
                raise
            ended = str(error) or "interrupted"
    return Contest({**_data(guest, seed, rows, ended), "arena": arena.name})


def _of_guest(row: Mapping[str, Any]) -> bool:
    return row["attacker"] == "guest" and "scores" in row


def _whole(child: Any, until: float) -> bool:
    """Tell whether a child came to its end before the budget did."""
    with suppress(CutOffError):
        child(seconds=until - time.monotonic())
        return True
    return False


def _data(guest: Guest, seed: int, rows: Sequence[Mapping[str, Any]], ended: str = "complete") -> dict[str, Any]:
    """Return a contest as plain data; how it ended: complete, budget, interrupted, or the error of a process."""
    guesses = {row["network"]: row for row in rows if row["attacker"] == "guess"}
    pairs = [(network, name) for network, row in guesses.items() for name in row["defenses"]]
    found = [_compared(network, name, rows, guesses[network]["scores"]) for network, name in pairs]
    tried = sum(one["difference"] is not None for one in found)
    return {
        "schema": SCHEMA,
        "subject": {"kind": guest.kind, "file": guest.file.name, "name": guest.offered, "sha256": guest.sha256},
        "seed": seed,
        "ended": ended.replace(str(guest.file), guest.file.name),
        "rows": [_decided(one, tried, guest) for one in found],
    }


def _compared(
    network: str, defense: str, rows: Sequence[Mapping[str, Any]], guesses: Sequence[float]
) -> dict[str, Any]:
    """Return one defense on one network: the guest's readings beside those of the strongest of the house."""
    own = [row for row in rows if row.get("defense") == defense and row["network"] == network]
    house = [row for row in own if row["attacker"] == "house" and "scores" in row]
    theirs = next((row for row in own if row["attacker"] == "guest"), None)
    # who reads less than a guess has read nothing, and is no measure of anybody
    guess = {"by": "a guess", "scores": guesses}
    best = max([*house, guess], key=lambda row: fmean(row["scores"])) if house else None
    read = theirs["scores"] if theirs and "scores" in theirs else None
    differences = [a - b for a, b in zip(read, best["scores"], strict=True)] if read and best else None
    return {
        "network": network, "defense": defense, "guess": rounded(fmean(guesses)),
        "each": read and [rounded(one) for one in read], "psnr": read and rounded(fmean(read)),
        "labels": theirs["labels"] if read and theirs else None,
        "failed": theirs.get("failed") if theirs else None,
        "house": best and {"by": best["by"], "psnr": rounded(fmean(best["scores"])), "tried": len(house),
                           "each": [rounded(one) for one in best["scores"]]},
        "difference": differences,
    }  # fmt: skip


def _decided(one: dict[str, Any], tried: int, guest: Guest) -> dict[str, Any]:
    """Return a row with its word; the intervals of all rows share their error."""
    failed = one["failed"] and one["failed"].replace(str(guest.file), guest.file.name)
    differences = one.pop("difference")
    if differences is None:
        word = "failed" if failed else "not run"
        return {**one, "failed": failed, "ahead": None, "low": None, "high": None, "word": word}
    mean, half = fmean(differences), half_width(differences, tried)
    ends = {"ahead": rounded(mean), "low": rounded(mean - half), "high": rounded(mean + half)}
    word = "ahead" if ends["low"] > 0 else "behind" if ends["high"] < 0 else "level"
    return {**one, "failed": None, **ends, "word": word}


def sentence(data: Mapping[str, Any]) -> str:
    """Return what a contest says in one sentence."""
    rows = data["rows"]
    told = [row for row in rows if row["word"] in ("ahead", "level", "behind")]
    if not told:
        failed = next((row["failed"] for row in rows if row["failed"]), None)
        return f"it read nothing: {failed}" if failed else "the budget ended before it read anything: give it more"
    ahead = [
        f"{row['defense']} on the {row['network']} by {row['ahead']:.1f} dB" for row in told if row["word"] == "ahead"
    ]
    behind = sum(row["word"] == "behind" for row in told)
    of = f"of {len(told)} pairs of a defense and a network"
    more = f"; {len(rows) - len(told)} more were not decided" if len(told) < len(rows) else ""
    return f"ahead of the strongest of the house: {'; '.join(ahead) or 'nowhere'} ({of}; behind on {behind}{more})"


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    house = row["house"]
    best = f"{house['psnr']:.1f} ({house['by']})" if house else ""
    if row["failed"] or row["psnr"] is None:
        return row["network"], row["defense"], row["failed"] or "not run", best, "", ""
    interval = f"{row['ahead']:+.1f} [{row['low']:+.1f}, {row['high']:+.1f}]" if row["ahead"] is not None else ""
    return row["network"], row["defense"], f"{row['psnr']:.1f}", best, interval, row["word"]


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'network':8} {'defense':22} {'it, dB':>8}  {'strongest of the house, dB':36} difference"
    for row in data["rows"]:
        network, defense, own, best, interval, word = _cells(row)
        yield f"{network:8} {defense:22} {own:>8}  {best:36} {interval} {word}".rstrip()
    yield sentence(data)
    if data["ended"] == "budget":
        yield "the budget ended before all had their turn: give it a larger --budget"
    elif data["ended"] != "complete":
        yield f"not all had their turn: {data['ended']}"


def _markdown(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"**{data['subject']['name']}**: {sentence(data)}\n"
    yield "| network | defense | it, dB | strongest of the house, dB | difference | |"
    yield "|---|---|---|---|---|---|"
    yield from (f"| {' | '.join(_cells(row))} |" for row in data["rows"])
