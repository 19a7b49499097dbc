"""The card of a guest's defense: what was found, as data, and as lines for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from leaklab.guests.files import Guest
from leaklab.guests.verdict import ATTACKS, LEAST, gain, word_of, worst

SCHEMA = "leaklab-card/1"
NOTHING = "does nothing"
SHOWN = {
    "undefended": "no defense",
    "unaware": "defended, attacker unaware",
    "rule": "defended, attacker by rule",
    "learnt": "defended, attacker who learnt it",
    "noise": "noise of the same energy",
    "rounds": "defended, mean of several rounds",
}


def card_of(
    guest: Guest,
    seed: int,
    warnings: Sequence[Mapping[str, str]],
    rows: Sequence[Mapping[str, Any]],
    answers: Mapping[str, Mapping[str, Any] | None],
) -> dict[str, Any]:
    """Return a card.

    Args:
        guest: what was judged.
        seed: of everything that was drawn.
        warnings: of the lint.
        rows: of all networks, as ``judge.judged`` tells them.
        answers: network -> what it said at its end; None where it was cut off.
    """
    arenas = {}
    for network, answer in answers.items():
        own = [row for row in rows if row["network"] == network]
        guesses: list[float] = next((row["decibels"] for row in own if row["attacker"] == "guess"), [])
        read = [row for row in own if row["attacker"] != "guess" and "decibels" in row]
        failed = [row for row in own if "failed" in row and row["attacker"] in ATTACKS]
        complete = answer is not None and not failed
        tried = sum(row["attacker"] in ATTACKS for row in read)
        arenas[network] = {
            "updates": len(guesses),
            "facts": list(answer["facts"]) if answer else [],
            "guess_psnr": fmean(guesses) if guesses else None,
            "rows": [_shown(row, guesses, tried) for row in own if row["attacker"] != "guess"],
            "complete": answer is not None,
            "verdict": word_of(read, guesses, complete=complete) if guesses else "undecided",
        }
    return {
        "schema": SCHEMA,
        "subject": {"kind": guest.kind, "file": guest.file.name, "name": guest.offered, "sha256": guest.sha256},
        "seed": seed,
        "warnings": [dict(one) for one in warnings],
        "arenas": {"tiny": arenas},
        "verdict": worst([str(arena["verdict"]) for arena in arenas.values()]),
        "not measured": ["price in accuracy", "several rounds", "batches", "colour"],
    }


def _shown(row: Mapping[str, Any], guesses: Sequence[float], tried: int) -> dict[str, Any]:
    common = {key: row[key] for key in ("attacker", "by", "seconds")}
    if "failed" in row:
        return {**common, "not run": row["failed"]}
    own = gain(row["decibels"], guesses, tried if row["attacker"] in ATTACKS else 1)
    return {
        **common, "psnr": fmean(row["decibels"]), "gain": own.mean, "low": own.low, "high": own.high,
        "labels": row["labels"],
    }  # fmt: skip


def lines_of(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield a card for a terminal."""
    for network, arena in card["arenas"]["tiny"].items():
        facts = "; ".join(arena["facts"]) or ("cut off" if not arena["complete"] else "none that the experiments know")
        yield f"{network}: {facts}"
        if arena["guess_psnr"] is not None:
            yield f"  {'a guess':34} {arena['guess_psnr']:5.1f} dB"
        for row in arena["rows"]:
            who = f"{SHOWN[row['attacker']]} ({row['by']})" if row["attacker"] in ATTACKS else SHOWN[row["attacker"]]
            if "not run" in row:
                yield f"  {who}: not run ({row['not run']})"
                continue
            told = f"{row['gain']:+5.1f} [{row['low']:+.1f}, {row['high']:+.1f}] over a guess"
            yield f"  {who:52} {row['psnr']:5.1f} dB, {told}; labels {row['labels']} of {arena['updates']}"
        yield f"  {arena['verdict']}" + ("" if arena["complete"] else " (the budget ended before all had their turn)")
    yield sentence(card)


def sentence(card: Mapping[str, Any]) -> str:
    """Return what a card says in one sentence; it never says safe."""
    arenas = card["arenas"]["tiny"]
    rows = [(network, row) for network, arena in arenas.items() for row in arena["rows"] if "psnr" in row]
    attacks = [(row["gain"], network, row) for network, row in rows if row["attacker"] in ATTACKS]
    tried = ", ".join(dict.fromkeys(f"{row['attacker']}: {row['by']}" for _, _, row in attacks))
    verdict = card["verdict"]
    if all(arena["facts"] == [NOTHING] for arena in arenas.values()):
        return f"{verdict}: it does nothing: what it sends is the gradient itself"
    if verdict == "read":
        _, network, row = max((one for one in attacks if arenas[one[1]]["verdict"] == "read"), key=lambda one: one[0])
        return f"read: {row['by']} reads {row['psnr']:.1f} dB on the {network}, {row['gain']:.1f} more than a guess"
    if verdict == "stood":
        return f"stood: none of those who were tried read it ({tried}); nobody else was"
    if verdict == "no premise":
        return "no premise: without any defense the attack gains nothing here, so a defense shows nothing either"
    if any(arena["updates"] < LEAST or not arena["complete"] for arena in arenas.values()):
        return "undecided: not all attackers had their turn; give it a larger --budget"
    return f"undecided: the intervals hold both answers (tried: {tried})"
