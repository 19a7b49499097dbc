"""``vit`` as a frozen backbone with an adapter after each perceptron: the ViT of HyperFL-LPM (specification 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from leaklab.models.adapters import BottleneckAdapter, Tuning, inputs_of, is_frozen
from leaklab.models.base import Shape
from leaklab.models.vit import Block, VisionTransformer
from leaklab.records.bounds import Count


class AdaptedBlock(Block):
    """A block of ``vit`` and an adapter behind it."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__(width, heads)
        self.adapter = BottleneckAdapter(width, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the new tokens."""
        out: Tensor = self.adapter(super().forward(tokens))
        return out


@dataclass(frozen=True)
class AdaptedVisionTransformer(VisionTransformer):
    """The layers of ``vit`` by their names, an adapter in each block, and a head of its own.

    Attributes:
        tuning: ``adapter`` trains adapters and head; ``fixed`` has no adapters and trains the head alone.
        channels: that the backbone takes.
        reduction: the width over that of an adapter's inside.
    """

    has_frozen_part: ClassVar[bool] = True

    tuning: Tuning = "adapter"
    channels: Count = 3
    reduction: Count = 16

    def layers(self, input_shape: Shape, num_classes: int) -> Mapping[str, nn.Module]:
        """Return colours (where images are gray) and the layers of ``vit``, its blocks with adapters.

        Raises:
            UserError: images of other channels, or that patches do not fill.
        """
        first, shape = inputs_of(input_shape, self.channels, 0)
        layers = dict(super().layers(shape, num_classes))
        if self.tuning == "adapter":
            hidden = max(1, self.width // self.reduction)
            layers["blocks"] = nn.Sequential(
                *(AdaptedBlock(self.width, self.heads, hidden) for _ in range(self.blocks))
            )
        return first | layers

    def frozen(self, name: str) -> bool:
        """Tell whether a tensor is the backbone's."""
        return is_frozen(name)


PLUGIN = AdaptedVisionTransformer
