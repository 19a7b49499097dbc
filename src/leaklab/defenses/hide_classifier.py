"""Hidden classifier: the last affine layer stays with the client (LRP figure 8)."""

from dataclasses import dataclass

from torch import nn

from leaklab.defenses.base import Defense
from leaklab.defenses.last_layer import last_affine


@dataclass(frozen=True)
class HiddenClassifier(Defense):
    """Send all updates but those of the last affine layer, so that no label can be read off it."""

    def hidden(self, network: nn.Sequential) -> frozenset[str]:
        """Return the names of the last affine layer's parameters.

        Raises:
            UserError: the network has no affine layer of its own.
        """
        layer = last_affine(network, "defense hide-classifier")
        return frozenset(name for name, _ in network.named_parameters() if name.rpartition(".")[0] == layer)


PLUGIN = HiddenClassifier
