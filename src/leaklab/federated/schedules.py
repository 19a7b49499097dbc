"""Decay with the inverse of the round (LRP figures 5 and 10: 0.01 / (1 + t / 50), t counts rounds)."""

from dataclasses import dataclass
from math import cos, pi

from leaklab.records.bounds import Positive


@dataclass(frozen=True)
class Inverse:
    """Half the initial rate after ``half_life`` rounds, a third after twice as many.

    Attributes:
        half_life: rounds until the rate is halved.
    """

    half_life: Positive = 50.0

    def factor(self, round_index: int, rounds: int) -> float:
        """Return 1 / (1 + r / half_life) for round r, from 0."""
        return 1 / (1 + round_index / self.half_life)


# Cosine decay to zero over the rounds (LRP section 5.2; once a round, without restarts).


@dataclass(frozen=True)
class Cosine:
    """Half a cosine: 1 in the first round, near 0 in the last."""

    def factor(self, round_index: int, rounds: int) -> float:
        """Return (1 + cos(pi r / R)) / 2 for round r = 0 ... R - 1."""
        return (1 + cos(pi * round_index / rounds)) / 2


# The same nominal rate in every round.


@dataclass(frozen=True)
class Constant:
    """No change."""

    def factor(self, round_index: int, rounds: int) -> float:
        """Return 1."""
        return 1.0


PLUGINS = {
    "constant": Constant,
    "cosine": Cosine,
    "inverse": Inverse,
}
