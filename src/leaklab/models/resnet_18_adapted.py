"""``resnet-18`` as a frozen backbone with four adapters: the ResNet of HyperFL-LPM (specification 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from leaklab.models.adapters import Tuning, adapted_stages, inputs_of, is_frozen
from leaklab.models.base import Shape
from leaklab.models.resnet_18 import ResNet18, Stem
from leaklab.records.bounds import Count, Natural


@dataclass(frozen=True)
class AdaptedResNet18(ResNet18):
    """The layers of ``resnet-18`` by their names, adapter1 to adapter4 after its stages, and a head of its own.

    Attributes:
        stem: of the backbone; published ones are ImageNet's.
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        side: images are enlarged to so many pixels first; 0 for as they are.
    """

    has_frozen_part: ClassVar[bool] = True

    stem: Stem = "imagenet"
    tuning: Tuning = "adapter"
    channels: Count = 3
    side: Natural = 224

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours and resize (where images need them), the layers of ``resnet-18``, and adapters.

        Raises:
            UserError: images of other channels.
        """
        first, shape = inputs_of(input_shape, self.channels, self.side)
        return first | adapted_stages(super().layers(shape, num_classes), self.tuning)

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


PLUGIN = AdaptedResNet18
