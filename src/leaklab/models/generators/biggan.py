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

from leaklab.data.download import weights_path
from leaklab.models.base import Shape
from leaklab.models.generators.base import Generator
from leaklab.models.generators.biggan_weights import folded_state
from leaklab.models.normalisation import without_counters
from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError

# The layers of BigGAN-deep: normalisation steered by latent and class, bottleneck blocks, self-attention.

EPSILON = 1e-4
# bottlenecks: a block's 3x3 convolutions see a quarter of its input channels
REDUCTION = 4
# self-attention compares positions by an eighth of the channels and passes on half of them
COMPARED, PASSED = 8, 2


class ConditionalNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * (1 + S c) + O c, for the condition c and stored statistics.

    The statistics are never those of a batch, so that each image is made alone.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, condition: int) -> None:
        """Make S (``scale``) and O (``offset``) for conditions of ``condition`` numbers."""
        super().__init__()
        self.scale = nn.Linear(condition, channels, bias=False)
        self.offset = nn.Linear(condition, channels, bias=False)
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, values: Tensor, condition: Tensor) -> Tensor:
        """[N, C, H, W], [N, condition] -> [N, C, H, W]."""
        factor: Tensor = (1 + self.scale(condition)) * (self.running_var + EPSILON).rsqrt()
        shift: Tensor = self.offset(condition) - factor * self.running_mean
        return values * factor[:, :, None, None] + shift[:, :, None, None]


class Block(nn.Module):
    """A residual bottleneck of convolutions 1x1, 3x3, 3x3, 1x1, each after a normalisation and a ReLU.

    The shortcut has no parameters: it keeps the first channels, and repeats pixels where the block doubles the sides.
    """

    def __init__(self, inputs: int, outputs: int, condition: int, doubles: bool) -> None:
        """Make the layers from ``inputs`` to ``outputs`` channels; ``doubles`` the sides or keeps them."""
        super().__init__()
        self.outputs, self.doubles = outputs, doubles
        inner = inputs // REDUCTION
        self.bn_0 = ConditionalNorm(inputs, condition)
        self.conv_0 = nn.Conv2d(inputs, inner, 1)
        self.bn_1 = ConditionalNorm(inner, condition)
        self.conv_1 = nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_2 = ConditionalNorm(inner, condition)
        self.conv_2 = nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_3 = ConditionalNorm(inner, condition)
        self.conv_3 = nn.Conv2d(inner, outputs, 1)

    def forward(self, values: Tensor, condition: Tensor) -> Tensor:
        """[N, inputs, H, W], [N, condition] -> [N, outputs, H, W], or twice as high and wide."""
        inner = self.conv_0(F.relu(self.bn_0(values, condition)))
        inner = self.conv_1(self._grown(F.relu(self.bn_1(inner, condition))))
        inner = self.conv_2(F.relu(self.bn_2(inner, condition)))
        change: Tensor = self.conv_3(F.relu(self.bn_3(inner, condition)))
        return change + self._grown(values[:, : self.outputs])

    def _grown(self, values: Tensor) -> Tensor:
        return F.interpolate(values, scale_factor=2, mode="nearest") if self.doubles else values


class SelfAttention(nn.Module):
    """x + gamma * O(attention): every position reads from a map of half the sides."""

    def __init__(self, channels: int) -> None:
        """Make the four 1x1 convolutions (query, key, value, output) and gamma."""
        super().__init__()
        self.snconv1x1_theta = nn.Conv2d(channels, channels // COMPARED, 1, bias=False)
        self.snconv1x1_phi = nn.Conv2d(channels, channels // COMPARED, 1, bias=False)
        self.snconv1x1_g = nn.Conv2d(channels, channels // PASSED, 1, bias=False)
        self.snconv1x1_o_conv = nn.Conv2d(channels // PASSED, channels, 1, bias=False)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, values: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, C, H, W], sides even."""
        queries = self.snconv1x1_theta(values).flatten(2)
        keys = F.max_pool2d(self.snconv1x1_phi(values), 2).flatten(2)
        contents = F.max_pool2d(self.snconv1x1_g(values), 2).flatten(2)
        shares = (queries.transpose(1, 2) @ keys).softmax(2)
        read = (contents @ shares.transpose(1, 2)).unflatten(2, values.shape[2:])
        change: Tensor = self.gamma * self.snconv1x1_o_conv(read)
        return values + change


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


PLUGINS = {
    "biggan-deep": BigGanDeep,
}
