"""Decay with the inverse of the round (LRP figures 5 and 10: 0.01 / (1 + t / 50), t counts rounds)."""

from dataclasses import dataclass

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


PLUGIN = Inverse
