"""ReXNet ("Rethinking Channel Dimensions for Efficient Model Design") as timm has it; LRP table 2, ImageNet."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from torch import nn

from leaklab.models.base import Architecture, Shape
from leaklab.records.bounds import PartShare, Positive
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class ReXNet(Architecture):
    """Inverted bottlenecks whose channels grow linearly with depth; LRP's "RexNet-130" is timm's ``rexnet_130``.

    Parameters have timm's names, except that ``head.fc`` is called ``fc``.

    Attributes:
        batch_statistics: in training state samples mix; plans read it from the source.
        width: multiplier of all channels, 1.3 in LRP.
        dropout: probability to drop a feature before the affine layer; LRP states none, ReXNet's authors use 0.2.
        initialisation: scheme of ``models/initialisations.py``; ``he`` is timm's law for ReXNet, except that timm
            takes the affine layer's fan-out for its fan-in and starts its bias at zero.
    """

    batch_statistics: ClassVar[bool] = True

    width: Positive = 1.3
    dropout: PartShare = 0.0
    initialisation: str = "he"

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return stem, features, avgpool, flatten, dropout1 (if any), fc.

        Raises:
            UserError: timm is not installed.
        """
        whole = _timm_rexnet()(in_chans=input_shape[0], num_classes=num_classes, width_mult=self.width)
        parts: dict[str, nn.Module] = {"stem": whole.stem, "features": whole.features}
        head: dict[str, nn.Module] = {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}
        if self.dropout:
            head["dropout1"] = nn.Dropout(self.dropout)
        return parts | head | {"fc": nn.Linear(whole.num_features, num_classes)}


def _timm_rexnet() -> Any:
    # only this model needs timm: whoever trains another one need not have it
    try:
        return import_module("timm.models.rexnet").RexNet
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise UserError("model 'rexnet' needs the package timm: pip install timm") from None


PLUGIN = ReXNet
