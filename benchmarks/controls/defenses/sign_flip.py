"""Control: the update with the other sign, which everybody can turn back."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense


@dataclass(frozen=True)
class SignFlip(Defense):
    """Send minus the update."""

    def update(self, delta: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return minus the delta."""
        return {name: -value for name, value in delta.items()}


PLUGIN = SignFlip
