"""Control: nothing at all, by a class of its own."""

from dataclasses import dataclass

from leaklab.defenses.base import Defense


@dataclass(frozen=True)
class NoOp(Defense):
    """Leave everything as it is."""


PLUGIN = NoOp
