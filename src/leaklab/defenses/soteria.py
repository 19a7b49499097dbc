"""Soteria: columns of the last affine layer's gradient that say too much about the input are left out.

Source: "Soteria: Provable Defense against Privacy Leakage in Federated Learning from Representation Perspective"; LRP
table 3 (rate 0.8), OUTPOST table III (rate 0.5).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense
from leaklab.defenses.last_layer import last_affine
from leaklab.defenses.settings import require_between
from leaklab.defenses.soteria_mask import soteria_mask
from leaklab.records.bounds import OpenShare


@dataclass(frozen=True)
class Soteria(Defense):
    """Zero the columns of the layer's weight gradient that belong to the pruned features, in every local step.

    The other layers' gradients and the layer's bias gradient leave the client as they are. One backward pass per
    feature and step; see ``soteria_mask`` for which features are pruned.

    Attributes:
        pruned: share of the features, in (0, 1].
        layer: name of an affine layer directly in the network; empty for the last one.
    """

    pruned: OpenShare = 0.8
    layer: str = ""

    def __post_init__(self) -> None:
        require_between("defense soteria", 0, 1, pruned=self.pruned)

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the pruned columns zero.

        Raises:
            UserError: no network at hand, no such layer, or a share that prunes no feature.
        """
        network = context.network()
        layer = self.layer or last_affine(network, "defense soteria")
        mask = soteria_mask(network, context.batch["images"], layer, self.pruned)
        name = f"{layer}.weight"
        return {**gradients, name: gradients[name].masked_fill(mask.to(gradients[name].device), 0.0)}


PLUGIN = Soteria
