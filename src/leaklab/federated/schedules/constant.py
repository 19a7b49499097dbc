"""The same nominal rate in every round."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """No change."""

    def factor(self, round_index: int, rounds: int) -> float:
        """Return 1."""
        return 1.0


PLUGIN = Constant
