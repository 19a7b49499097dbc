"""From what attackers read to a word: *read*, *stood*, *undecided*, *no premise* or *invalid*.

A gain is the PSNR of a reconstruction minus that of the best guess, for the same update. The mean of the gains over
updates has a Student interval; where several attackers were tried, each may be wrong so much more rarely. An update
counts as read from ``BAR`` dB of gain on. All numbers are rounded before a word is found, so that a card shows those
that decided.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from scipy.stats import t as student

BAR = 2.0
LEAST = 6
LEVEL = 0.95
DECIMALS = 2
"""Of numbers in dB."""
WORDS = ("invalid", "read", "undecided", "no premise", "stood")
"""The worst first: of several networks the worst word counts."""
STATUS = {"stood": 0, "read": 3, "undecided": 4, "no premise": 5, "invalid": 1}
ATTACKS = ("unaware", "rule", "learnt")


@dataclass(frozen=True)
class Gain:
    """What an attacker gained over a guess.

    Attributes:
        mean: over updates, in dB.
        low: end of its interval; None where one update tells nothing of it.
        high: the other end.
    """

    mean: float
    low: float | None
    high: float | None

    @property
    def reads(self) -> bool:
        """Whether the whole interval lies above the bar."""
        return self.low is not None and self.low > BAR

    @property
    def misses(self) -> bool:
        """Whether it lies below."""
        return self.high is not None and self.high < BAR


def rounded(decibels: float) -> float:
    """Return a number in dB as it stands on a card."""
    return round(decibels, DECIMALS) + 0.0  # no minus before a zero


def gain(decibels: Sequence[float], guesses: Sequence[float], tried: int = 1) -> Gain:
    """Return the mean gain and its interval, rounded.

    Args:
        decibels: PSNR of each update's reconstruction.
        guesses: of the best guess of it.
        tried: attackers that share the error that is allowed.
    """
    gains = [found - guess for found, guess in zip(decibels, guesses, strict=True)]
    mean = fmean(gains)
    if len(gains) < 2:
        return Gain(rounded(mean), None, None)
    half = half_width(gains, tried)
    return Gain(rounded(mean), rounded(mean - half), rounded(mean + half))


def half_width(values: Sequence[float], tried: int = 1) -> float:
    """Return half of the Student interval of a mean of two values or more; ``tried`` intervals share the error."""
    return float(student.ppf(1 - (1 - LEVEL) / 2 / tried, len(values) - 1)) * stdev(values) / sqrt(len(values))


def word_of(
    rows: Sequence[Mapping[str, object]], guesses: Sequence[float], *, complete: bool = True, control: bool = True
) -> str:
    """Return the word for one network.

    Args:
        rows: attackers' ``attacker`` and ``decibels``; those of ``ATTACKS`` decide, ``undefended`` is the premise.
        guesses: PSNR of the best guess of each update.
        complete: all attackers had their turn.
        control: what does nothing sent the gradient itself.
    """
    if not control:
        return "invalid"
    by = {row["attacker"]: row for row in rows}
    if "undefended" not in by:
        return "undecided"
    if not gain(_decibels(by["undefended"]), guesses).reads:
        return "no premise"
    own = [_decibels(row) for row in rows if row["attacker"] in ATTACKS]
    gains = [gain(decibels, guesses, len(own)) for decibels in own]
    if len(guesses) >= LEAST and any(one.reads for one in gains):
        return "read"
    whole = complete and bool(gains) and len(guesses) >= LEAST
    return "stood" if whole and all(one.misses for one in gains) else "undecided"


def _decibels(row: Mapping[str, object]) -> list[float]:
    decibels = row["decibels"]
    assert isinstance(decibels, list)
    return decibels


def worst(words: Sequence[str]) -> str:
    """Return the word of a card of several networks."""
    return min(words, key=WORDS.index)
