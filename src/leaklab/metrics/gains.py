"""What a reading gains over the best guess, and from which gain on something counts as read.

A gain is the PSNR of a reconstruction minus that of the best guess, for the same update. The mean of the gains over
updates has a Student interval; where several attackers were tried, each may be wrong so much more rarely. An update
counts as read from ``BAR`` dB of gain on. For the lower end no update counts for more than ``CLEAR``: decibels have no
end, and one image that is read exactly must not widen the interval until nothing is said to be read. All numbers are
rounded before a word is found, so that a card shows those that decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

BAR = 2.0
"""In dB; of sentences, in percent of their tokens, see ``BARS``."""
BARS = {"dB": BAR, "%": 10.0}
CLEAR = 10.0
"""In dB: a tenth of the error of the guess."""
LEVEL = 0.95
DECIMALS = 2
"""Of numbers in dB or percent."""
MOST_DB = 150.0
"""Of a copy: float64 holds no more."""


@dataclass(frozen=True)
class Gain:
    """What an attacker gained over a guess.

    Attributes:
        mean: over updates, in dB or percent.
        low: end of its interval, see ``CLEAR``; None where one update tells nothing of it.
        high: the other end.
        bar: from which on an update counts as read.
    """

    mean: float
    low: float | None
    high: float | None
    bar: float = BAR

    @property
    def reads(self) -> bool:
        """Whether the whole interval lies above the bar."""
        return self.low is not None and self.low > self.bar

    @property
    def misses(self) -> bool:
        """Whether it lies below."""
        return self.high is not None and self.high < self.bar


def rounded(score: float) -> float:
    """Return a number in dB or percent as it stands on a card."""
    return round(score, DECIMALS) + 0.0  # no minus before a zero


def gain(scores: Sequence[float], guesses: Sequence[float], tried: int = 1, unit: str = "dB") -> Gain:
    """Return the mean gain and its interval, rounded.

    Args:
        scores: PSNR of each update's reconstruction, or percent of its tokens.
        guesses: of the best guess of it.
        tried: attackers that share the error that is allowed.
        unit: of them; an interval of percent does not go beyond none or all tokens.
    """
    gains = [found - guess for found, guess in zip(scores, guesses, strict=True)]
    mean = fmean(gains)
    if len(gains) < 2:
        return Gain(rounded(mean), None, None, BARS[unit])
    most = [min(one, CLEAR) for one in gains] if unit == "dB" else gains
    low, high = fmean(most) - half_width(most, tried), mean + half_width(gains, tried)
    if unit == "%":
        low, high = max(low, -fmean(guesses)), min(high, 100 - fmean(guesses))
    return Gain(rounded(mean), rounded(low), rounded(high), BARS[unit])


def half_width(values: Sequence[float], tried: int = 1) -> float:
    """Return half of the Student interval of a mean of two values or more; ``tried`` intervals share the error."""
    from scipy.stats import t as student  # slow to import

    return float(student.ppf(1 - (1 - LEVEL) / 2 / tried, len(values) - 1)) * stdev(values) / sqrt(len(values))
