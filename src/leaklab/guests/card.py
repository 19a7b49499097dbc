"""The card of a guest's defense: what was found, as data, and as lines for a terminal."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from statistics import fmean
from typing import Any, cast

from leaklab.guests.arenas import DEFAULT, Arena
from leaklab.guests.files import Guest
from leaklab.guests.schema import SCHEMA, CardData
from leaklab.guests.verdict import ATTACKS, LEAST, STATUS, word_of, worst
from leaklab.metrics.gains import BARS, gain, rounded

NOTHING = "does nothing"
SILENT = "sends the same of all images that were attacked: nothing of them is in it, and it trains nobody here"
BATCHES, STEPS, COLOUR = "batches", "several local steps", "colour"
PRICE, SENTENCES = "what it costs", "sentences"
NOT_MEASURED = (BATCHES, STEPS, COLOUR, SENTENCES, PRICE, "networks that were trained")
SHOWN = {
    "undefended": "no defense",
    "unaware": "defended, attacker unaware",
    "rule": "defended, attacker by rule",
    "learnt": "defended, attacker who learnt it",
    "noise": "noise of the same energy",
    "noise of the same price": "noise of the same price",
    "rounds": "defended, mean of several rounds",
}
CONTROL = (
    "a defense that does nothing did not send the gradient itself on the {}: the file changes something outside of "
    "itself, so nothing that was measured counts"
)


def card_of(
    guest: Guest,
    arena: Arena,
    seed: int,
    warnings: Sequence[Mapping[str, str]],
    rows: Sequence[Mapping[str, Any]],
    answers: Mapping[str, Mapping[str, Any] | None],
    *,
    interrupted: bool = False,
) -> dict[str, Any]:
    """Return a card as ``schema.CardData`` describes it; no folder of the machine is named in it.

    Args:
        guest: what was judged.
        arena: where.
        seed: of everything that was drawn.
        warnings: of the lint.
        rows: of all networks, as ``judge.judged`` tells them.
        answers: network -> what it said at its end; None where it was cut off.
        interrupted: it was cut off by its user, and not by the budget.
    """
    networks = {
        network: {
            **_network([row for row in rows if row["network"] == network], answer, guest, arena.unit),
            "samples": arena.samples,
            "unit": arena.unit,
        }
        for network, answer in answers.items()
    }
    file = arena.file
    measured = {
        BATCHES: file.batch > 1, STEPS: file.steps > 1, COLOUR: any(row.get("channels") == 3 for row in rows),
        SENTENCES: arena.unit == "%", PRICE: file.price is not None,
    }  # fmt: skip
    verdict = worst([str(one["verdict"]) for one in networks.values()])
    spoilt = [network for network, one in networks.items() if one["control"] is False]
    own = [{"what": one["what"], "text": _without_folder(one["text"], guest)} for one in warnings]
    ended = "interrupted" if interrupted else "budget" if None in answers.values() else "complete"
    card = {
        "schema": SCHEMA,
        "subject": {"kind": guest.kind, "file": guest.file.name, "name": guest.offered, "sha256": guest.sha256},
        "seed": seed,
        "versions": {"leaklab": version("leaklab"), "python": platform.python_version(), "torch": version("torch")},
        "warnings": own + [{"what": "control", "text": CONTROL.format(network)} for network in spoilt],
        "arenas": {arena.name: networks},
        "ended": ended,
        "verdict": verdict,
        "status": STATUS[verdict],
        "not measured": [one for one in NOT_MEASURED if not measured.get(one)],
    }
    return CardData.model_validate({**card, "sentence": sentence(card)}).model_dump(mode="json", by_alias=True)


def _network(
    rows: Sequence[Mapping[str, Any]], answer: Mapping[str, Any] | None, guest: Guest, unit: str
) -> dict[str, Any]:
    guesses: list[float] = next((row["scores"] for row in rows if row["attacker"] == "guess"), [])
    control: bool | None = next((row["same"] for row in rows if row["attacker"] == "control"), None)
    searches = [row for row in rows if row["attacker"] in SHOWN]
    read = [row for row in searches if "scores" in row]
    failed = [row for row in searches if "failed" in row and row["attacker"] in ATTACKS]
    complete, spoilt = answer is not None and not failed, control is False
    tried = sum(row["attacker"] in ATTACKS for row in read)
    return {
        "updates": len(guesses),
        "facts": next((list(row["facts"]) for row in rows if row["attacker"] == "facts"), []),
        **{f"guess_{name}": value for name, value in _in_unit(guesses, unit).items()},
        "control": control,
        "rows": [_shown(row, guesses, tried, guest, unit) for row in searches],
        "price": answer.get("price") if answer else None,
        "complete": answer is not None,
        "verdict": word_of(read, guesses, complete=complete, control=not spoilt, unit=unit)
        if guesses or spoilt
        else "undecided",
    }


def _in_unit(scores: Sequence[float], unit: str) -> dict[str, float | None]:
    """Return a mean as ``psnr`` or ``tokens``, by the unit; the other is None."""
    mean = rounded(fmean(scores)) if scores else None
    return {"psnr": mean if unit == "dB" else None, "tokens": mean if unit == "%" else None}


def _shown(row: Mapping[str, Any], guesses: Sequence[float], tried: int, guest: Guest, unit: str) -> dict[str, Any]:
    common = {"attacker": row["attacker"], "by": row["by"], "seconds": round(row["seconds"], 1)}
    if "failed" in row:
        return {**common, "not run": _without_folder(row["failed"], guest)}
    own = gain(row["scores"], guesses, tried if row["attacker"] in ATTACKS else 1, unit)
    each = [rounded(one) for one in row["scores"]]
    return {
        **common, **_in_unit(row["scores"], unit), "each": each, "gain": own.mean, "low": own.low,
        "high": own.high, "labels": row["labels"],
    }  # fmt: skip


def _without_folder(text: str, guest: Guest) -> str:
    return text.replace(str(guest.file), guest.file.name)


def networks_of(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what was found on each network of the one arena of a card."""
    (found,) = card["arenas"].values()
    return cast("Mapping[str, Any]", found)


def asked_for(card: Mapping[str, Any]) -> str:
    """Return how a card's arena is named to ``leaklab try``, after a blank; nothing of the default."""
    (name,) = card["arenas"]
    own, _, digest = name.partition(" (")
    return "" if name == DEFAULT else f" --arena {own}{'.yaml' if digest else ''}"


OF_UNIT = {
    "dB": (
        "mean PSNR",
        "PSNR",
        "images",
        "the better of two mean images, of all public images or of those of the class",
    ),
    "%": (
        "tokens at their place",
        "Tokens at their place",
        "sentences",
        "the better of the commonest public tokens of each place, of all sentences or of those of the class",
    ),
}
"""Unit -> column, sentence's beginning, what was attacked, and what a guess of it is."""


def worded(card: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return the words of ``OF_UNIT`` for a card."""
    return OF_UNIT[next(iter(networks_of(card).values()))["unit"]]


def at_a_time(card: Mapping[str, Any]) -> str:
    """Return how many images are in an update."""
    samples = next(iter(networks_of(card).values()))["samples"]
    return "one at a time" if samples == 1 else f"{samples} in an update, of which attackers were told the labels"


def cells(row: Mapping[str, Any], updates: int) -> tuple[str, str, str, str]:
    """Return who attacked, PSNR, gain with its interval, and labels, as they are shown everywhere."""
    who = f"{SHOWN[row['attacker']]} ({row['by']})" if row["attacker"] in ATTACKS else SHOWN[row["attacker"]]
    if "not run" in row:
        return who, "not run", row["not run"], ""
    interval = "" if row["low"] is None else f" [{row['low']:+.1f}, {row['high']:+.1f}]"
    labels = "" if row["labels"] is None else f"{row['labels']} of {updates}"
    return who, read_of(row), f"{row['gain']:+.1f}{interval}", labels


def read_of(row: Mapping[str, Any]) -> str:
    """Return what was read, with its unit."""
    return f"{row['psnr']:.1f} dB" if row.get("tokens") is None else f"{row['tokens']:.0f} % of tokens"


def guess_of(arena: Mapping[str, Any]) -> str:
    """Return what a guess gets, with its unit; empty where none was made."""
    if arena["guess_psnr"] is None and arena.get("guess_tokens") is None:
        return ""
    return read_of({"psnr": arena["guess_psnr"], "tokens": arena.get("guess_tokens")})


def lines_of(card: Mapping[str, Any]) -> Iterator[str]:
    """Yield a card for a terminal."""
    for warning in card["warnings"]:
        yield f"warning: {warning['text']}"
    for network, arena in networks_of(card).items():
        yield f"{network}: {facts_of(arena)}"
        if guess := guess_of(arena):
            yield f"  {'a guess':52} {guess:>8}"
        for row in arena["rows"]:
            who, psnr, gained, labels = cells(row, arena["updates"])
            if "not run" in row:
                yield f"  {who}: not run ({gained})"
                continue
            yield f"  {who:52} {psnr:>8}, {gained:>5} over a guess" + (f"; labels {labels}" if labels else "")
        if arena["price"]:
            yield f"  {price_of(arena['price'])}"
        yield f"  {arena['verdict']}" + ("" if arena["complete"] else f" ({cut_off(card)})")
    yield card["sentence"]


def facts_of(arena: Mapping[str, Any]) -> str:
    """Return what a defense does on one network in a line."""
    return "; ".join(arena["facts"]) or ("cut off" if not arena["complete"] else "none that the experiments know")


def price_of(price: Mapping[str, Any]) -> str:
    """Return what a defense costs in a line."""
    where = f" of {price['network']}" if price.get("network") else ""
    lost = f"{price['lost']:+.1f} [{price['low']:+.1f}, {price['high']:+.1f}] points"
    return (
        f"costs {lost} of {price['without']:.1f} % accuracy in {price['pairs']} paired trainings{where}, "
        f"{price['milliseconds']:.1f} ms a step beside {price['gradient_milliseconds']:.1f} ms of the gradient, "
        f"{price['bytes']:,} bytes an update in place of {price['bytes_without']:,}"
    )


def cut_off(card: Mapping[str, Any]) -> str:
    """Return why a network of a card is not complete."""
    what = "it was interrupted" if card["ended"] == "interrupted" else "the budget ended"
    return f"{what} before all had their turn"


def sentence(card: Mapping[str, Any]) -> str:
    """Return what a card says in one sentence; it never says safe."""
    arenas, verdict = networks_of(card), card["verdict"]
    rows = [row for arena in arenas.values() for row in arena["rows"] if row["attacker"] in ATTACKS]
    tried = ", ".join(dict.fromkeys(f"{row['attacker']}: {row['by']}" for row in rows if "not run" not in row))
    if verdict == "invalid":
        return f"invalid: {card['warnings'][-1]['text']}"
    if all(arena["facts"] == [NOTHING] for arena in arenas.values()):
        return f"{verdict}: it does nothing: what it sends is the gradient itself"
    if verdict == "read":
        network, row = strongest(card)
        return f"read: {row['by']} reads {read_of(row)} on the {network}, {row['gain']:.1f} more than a guess"
    if verdict == "stood":
        return f"stood: none of those who were tried read it ({tried}); nobody else was"
    if verdict == "no premise":
        return "no premise: without any defense the attack gains nothing here, so a defense shows nothing either"
    if any(not arena["complete"] for arena in arenas.values()):
        advice = "run it again" if card["ended"] == "interrupted" else "give it a larger --budget"
        return f"undecided: not all attackers had their turn; {advice}"
    if silent := [network for network, arena in arenas.items() if SILENT in arena["facts"]]:
        return f"undecided: on the {' and the '.join(silent)} it {SILENT}"
    if failed := next((row for row in rows if "not run" in row), None):
        return f"undecided: {failed['by']} failed ({failed['not run']})"
    if any(arena["updates"] < LEAST for arena in arenas.values()):
        return f"undecided: fewer than {LEAST} updates decide nothing"
    return f"undecided: the intervals hold both answers (tried: {tried})"


def strongest(card: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return who read most over a guess, of those who decided that it was read, with the network."""
    attacks = [(network, row) for network, arena in networks_of(card).items() if arena["verdict"] == "read"
               for row in arena["rows"]
               if row["attacker"] in ATTACKS and (row.get("low") or 0) > BARS[arena["unit"]]]  # fmt: skip
    return max(attacks, key=lambda pair: float(pair[1]["gain"]))


def badge_of(card: Mapping[str, Any]) -> str:
    """Return the few words of a card's badge."""
    if card["verdict"] == "read":
        row = strongest(card)[1]
        return f"read {row['psnr']:.0f} dB" if row["tokens"] is None else f"read {row['tokens']:.0f} %"
    if card["verdict"] == "stood":
        rows = [row for arena in networks_of(card).values() for row in arena["rows"]]
        tried = {(row["attacker"], row["by"]) for row in rows if row["attacker"] in ATTACKS}
        return f"stood, {len(tried)} attackers tried"
    return str(card["verdict"])
