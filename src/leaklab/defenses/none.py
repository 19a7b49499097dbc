"""No defense: the undefended reference of every comparison."""

from dataclasses import dataclass

from leaklab.defenses.base import Defense


@dataclass(frozen=True)
class NoDefense(Defense):
    """Leave rate, gradient and update as they are and share every parameter."""

    def neutral(self) -> bool:
        """True."""
        return True


PLUGIN = NoDefense
