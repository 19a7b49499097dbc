"""BigGAN-deep for ImageNet at 128, 256 or 512 pixels: the generator of published GGL, with its published weights.

Source: "Large Scale GAN Training for High Fidelity Natural Image Synthesis" (BigGAN), appendix B, tables 7 to 9.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.base import Shape
from leaklab.models.batch_norm import without_counters
from leaklab.models.generators.base import Generator
from leaklab.models.generators.biggan_layers import EPSILON, Block, SelfAttention
from leaklab.models.generators.biggan_weights import folded_state
from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError
from leaklab.records.weights import weights_path

FIRST_SIDE = 4
COLORS = 3


@dataclass(frozen=True)
class Layout:
    """The sizes of one network.

    Attributes:
        multiples: channels at each side from 4 pixels on, each side twice the one before, in multiples of ``width``.
        attention_side: side at which positions look at each other; a side that does not occur means never.
        width: channels of the last layer.
        latent_size: numbers in one latent.
        embedding: numbers in a class's embedding; latent and embedding together steer every normalisation.
        num_classes: of the training data.
    """

    multiples: tuple[int, ...]
    attention_side: int = 64
    width: int = 128
    latent_size: int = 128
    embedding: int = 128
    num_classes: int = 1000

    @property
    def side(self) -> int:
        """The side of the images, in pixels."""
        return FIRST_SIDE << (len(self.multiples) - 1)


LAYOUTS = {
    128: Layout((16, 16, 8, 4, 2, 1)),
    256: Layout((16, 16, 8, 8, 4, 2, 1)),
    512: Layout((16, 16, 8, 8, 4, 2, 1, 1)),
}


class BigGanDeepGenerator(Generator):
    """Affine layer to 4x4 pixels -> at each side one block that keeps it and one that doubles it -> tanh.

    The embedding of class probabilities is the mean of the classes' embeddings, so soft classes are allowed.
    """

    def __init__(self, layout: Layout, side: int | None = None) -> None:
        """Make the layers; call it on the meta device (``load_biggan_deep`` does).

        Args:
            layout: see ``Layout``.
            side: images are shrunk to it by averaging over areas; None keeps the layout's.

        Raises:
            UserError: the side is larger than the layout's, or not positive.
        """
        chosen = layout.side if side is None else side
        if not 1 <= chosen <= layout.side:
            raise UserError(f"biggan-deep makes images of 1 to {layout.side} pixels, not {chosen}: change its side")
        super().__init__(layout.latent_size, layout.num_classes, (COLORS, chosen, chosen))
        condition = layout.latent_size + layout.embedding
        channels = [layout.width * multiple for multiple in layout.multiples]
        self.embeddings = nn.Linear(layout.num_classes, layout.embedding, bias=False)
        self.gen_z = nn.Linear(condition, FIRST_SIDE**2 * channels[0])
        self.layers = nn.ModuleList(_layers(channels, condition, layout.attention_side))
        self.bn = nn.BatchNorm2d(channels[-1], eps=EPSILON)
        # as published: of its outputs only the first three are an image
        self.conv_to_rgb = nn.Conv2d(channels[-1], channels[-1], 3, padding=1)
        without_counters(self)

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N, d], [N, K] -> [N, 3, side, side] in [0, 1]."""
        condition = torch.cat([latents, self.embeddings(classes)], 1)
        # the affine layer's numbers run over rows, columns, channels
        first = self.gen_z(condition).unflatten(1, (FIRST_SIDE, FIRST_SIDE, -1))
        values = first.permute(0, 3, 1, 2).contiguous()
        for layer in self.layers:
            values = layer(values, condition) if isinstance(layer, Block) else layer(values)
        kernel, bias = (value[:COLORS] for value in self.conv_to_rgb.parameters())
        images: Tensor = (F.conv2d(F.relu(self.bn(values)), kernel, bias, padding=1).tanh() + 1) / 2
        if images.shape[1:] == self.image_shape:
            return images
        return F.interpolate(images, self.image_shape[1:], mode="area")


def _layers(channels: list[int], condition: int, attention_side: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    side = FIRST_SIDE
    for inputs, outputs in pairwise(channels):
        if side == attention_side:
            layers.append(SelfAttention(inputs))
        layers.append(Block(inputs, inputs, condition, doubles=False))
        layers.append(Block(inputs, outputs, condition, doubles=True))
        side *= 2
    return layers


def load_biggan_deep(path: Path, layout: Layout, side: int | None = None, truncation: float = 1.0) -> Generator:
    """Return the generator of a published file, frozen, float32 on the CPU.

    Args:
        path: see ``biggan_weights.folded_state``.
        layout: the file's.
        side: of the images, None for the layout's.
        truncation: see ``BigGanDeep``.

    Raises:
        UserError: side or truncation is out of range, or the file does not fit the layout.
    """
    if not 0 < truncation <= 1:
        raise UserError(f"BigGAN's truncation lies within (0, 1], and is {truncation}: change it")
    with torch.device("meta"):  # torch's constructors would otherwise draw from the global generator
        generator = BigGanDeepGenerator(layout, side)
    generator.load_state_dict(folded_state(generator, path, truncation), strict=True, assign=True)
    return generator.frozen()


@dataclass(frozen=True)
class BigGanDeep:
    """The settings of a published generator.

    Attributes:
        resolution: 128, 256 or 512, the side of the images on which it was trained.
        side: of its images here, at most the resolution; None for the resolution itself.
        truncation: selects the running statistics. They fit latents drawn from N(0, 1) without values beyond +-2, and
            then multiplied by the truncation; it does not change the latents, which are used as they are given.
    """

    resolution: Literal[128, 256, 512] = 256
    side: Count | None = None
    truncation: Positive = 1.0

    def __post_init__(self) -> None:
        """Refuse an unknown resolution."""
        if self.resolution not in LAYOUTS:
            known = ", ".join(str(side) for side in LAYOUTS)
            raise UserError(f"biggan-deep has no resolution {self.resolution}: choose from {known}")

    @property
    def weights(self) -> str:
        """The name in ``config/weights.yaml``."""
        return f"biggan-deep-{self.resolution}"

    def generator(self, image_shape: Shape, num_classes: int) -> Generator:
        """Return the network without its weights, whose memory holds anything; they have to be loaded.

        Raises:
            UserError: it makes other images, or knows other classes.
        """
        with torch.device("meta"):
            network = BigGanDeepGenerator(LAYOUTS[self.resolution], self.side)
        network.require(image_shape, num_classes)
        return network.to_empty(device="cpu")

    def pretrained(self) -> Generator:
        """Return the generator with its published weights, frozen, on the CPU.

        Raises:
            WeightsUnavailableError: they are not at hand and cannot be fetched now.
            UserError: as ``load_biggan_deep``.
        """
        path = weights_path(self.weights)
        return load_biggan_deep(path, LAYOUTS[self.resolution], self.side, self.truncation)


PLUGIN = BigGanDeep
