"""Cosine decay to zero over the rounds (LRP section 5.2; once a round, without restarts)."""

from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Cosine:
    """Half a cosine: 1 in the first round, near 0 in the last."""

    def factor(self, round_index: int, rounds: int) -> float:
        """Return (1 + cos(pi r / R)) / 2 for round r = 0 ... R - 1."""
        return (1 + cos(pi * round_index / rounds)) / 2


PLUGIN = Cosine
