"""From what attackers gained to a word: *read*, *stood*, *undecided*, *no premise* or *invalid*."""

from collections.abc import Mapping, Sequence

from leaklab.metrics.gains import gain

LEAST = 6
WORDS = ("invalid", "read", "undecided", "no premise", "stood")
"""The worst first: of several networks the worst word counts."""
STATUS = {"stood": 0, "read": 3, "undecided": 4, "no premise": 5, "invalid": 1}
ATTACKS = ("unaware", "rule", "learnt")


def word_of(
    rows: Sequence[Mapping[str, object]],
    guesses: Sequence[float],
    *,
    complete: bool = True,
    control: bool = True,
    unit: str = "dB",
) -> str:
    """Return the word for one network.

    Args:
        rows: attackers' ``attacker`` and ``scores``; those of ``ATTACKS`` decide, ``undefended`` is the premise.
        guesses: PSNR, or percent of tokens, of the best guess of each update.
        complete: all attackers had their turn.
        control: what does nothing sent the gradient itself.
        unit: see ``gain``.
    """
    if not control:
        return "invalid"
    by = {row["attacker"]: row for row in rows}
    if "undefended" not in by:
        return "undecided"
    if not gain(_decibels(by["undefended"]), guesses, unit=unit).reads:
        return "no premise"
    own = [_decibels(row) for row in rows if row["attacker"] in ATTACKS]
    gains = [gain(scores, guesses, len(own), unit) for scores in own]
    if len(guesses) >= LEAST and any(one.reads for one in gains):
        return "read"
    whole = complete and bool(gains) and len(guesses) >= LEAST
    return "stood" if whole and all(one.misses for one in gains) else "undecided"


def _decibels(row: Mapping[str, object]) -> list[float]:
    scores = row["scores"]
    assert isinstance(scores, list)
    return scores


def worst(words: Sequence[str]) -> str:
    """Return the word of a card of several networks."""
    return min(words, key=WORDS.index)
