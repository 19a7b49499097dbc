"""``resnet-small`` as a frozen backbone with an adapter after each stage; stands in for HyperFL-LPM's ResNet."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from leaklab.models.adapters import Tuning, adapted_stages, inputs_of, is_frozen
from leaklab.models.base import Shape
from leaklab.models.resnet_small import SmallResNet
from leaklab.records.bounds import Count, Natural


@dataclass(frozen=True)
class AdaptedSmallResNet(SmallResNet):
    """The layers of ``resnet-small`` by their names, adapter1 to adapter3 between them, and a head of its own.

    Attributes:
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        side: images are enlarged to so many pixels first; 0 for as they are.
    """

    has_frozen_part: ClassVar[bool] = True

    tuning: Tuning = "adapter"
    channels: Count = 3
    side: Natural = 0

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours and resize (where images need them), the layers of ``resnet-small``, and adapters.

        Raises:
            UserError: images of other channels.
        """
        first, shape = inputs_of(input_shape, self.channels, self.side)
        return first | adapted_stages(super().layers(shape, num_classes), self.tuning)

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


PLUGIN = AdaptedSmallResNet
