"""Control: half the update, always; everybody can double it."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense


@dataclass(frozen=True)
class ScaledCopy(Defense):
    """Send half the update."""

    def update(self, delta: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return half the delta."""
        return {name: value / 2 for name, value in delta.items()}


PLUGIN = ScaledCopy
