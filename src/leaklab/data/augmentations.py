"""Random crop, horizontal flip and cutout, as usual for CIFAR.

Source: T. DeVries, G. Taylor, "Improved regularization of convolutional neural networks with cutout", 2017, which LRP
section 5.1 follows.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from leaklab.records.bounds import Natural, Share
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream


@dataclass(frozen=True)
class CropFlipCutout:
    """Shift, mirror and blank a square, independently for each image; 0 switches a part off.

    What is shifted in, and the blanked square, is 0 on the normalised scale: the training set's mean color. The center
    of the square is uniform over all pixels, so that near a border less than a full square is blanked. Every call draws
    five numbers per image, whatever is switched on: the parts do not disturb each other's draws.

    Attributes:
        padding: largest shift in pixels, in each direction.
        flip: probability that an image is mirrored left to right.
        cutout: side of the blanked square in pixels; 16 for CIFAR-10 and 8 for CIFAR-100 in the source.
    """

    padding: Natural = 4
    flip: Share = 0.5
    cutout: Natural = 16

    def __post_init__(self) -> None:
        for name in ("padding", "cutout"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UserError(f"augmentation crop-flip-cutout: {name} must be a whole number from 0, not {value!r}")
        if isinstance(self.flip, bool) or not isinstance(self.flip, int | float) or not 0 <= self.flip <= 1:
            raise UserError(f"augmentation crop-flip-cutout: flip must be from 0 to 1, not {self.flip!r}")

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return changed images: first cropped, then flipped, then cut out."""
        uniform = draws.uniform(5, len(images)).to(images.device)
        moved = self._moved(images, *uniform[:3])
        return moved.masked_fill(self._square(images, *uniform[3:]), 0) if self.cutout else moved

    def _moved(self, images: Tensor, down: Tensor, right: Tensor, mirrored: Tensor) -> Tensor:
        """Crop windows of the old size out of the padded images, some of them read from right to left.

        Args:
            images: [B, C, H, W].
            down: [B], in [0, 1): place of the window; as is ``right``.
            right: [B].
            mirrored: [B], in [0, 1): an image is flipped where this lies below the probability.
        """
        channels, height, width = images.shape[1:]
        padded = pad(images, [self.padding] * 4)
        window, here = 2 * self.padding + 1, images.device
        rows = (down * window).long()[:, None] + torch.arange(height, device=here)
        columns = (right * window).long()[:, None] + torch.arange(width, device=here)
        columns = torch.where((mirrored < self.flip)[:, None], columns.flip(1), columns)
        # one flat index per pixel is faster than indexing by row and column
        places = (rows[:, :, None] * padded.shape[-1] + columns[:, None, :]).flatten(1)
        return padded.flatten(2).gather(2, places[:, None].expand(-1, channels, -1)).reshape(images.shape)

    def _square(self, images: Tensor, down: Tensor, right: Tensor) -> Tensor:
        """Return where the squares lie, bool [B, 1, H, W]; ``down`` and ``right`` in [0, 1) place their centers."""
        rows, columns = (self._inside(place, size) for place, size in zip((down, right), images.shape[2:], strict=True))
        return (rows[:, :, None] & columns[:, None, :])[:, None]

    def _inside(self, place: Tensor, size: int) -> Tensor:
        """Return which of ``size`` rows or columns a square covers, bool [B, size]."""
        first = (place * size).long()[:, None] - self.cutout // 2
        position = torch.arange(size, device=place.device)
        return (first <= position) & (position < first + self.cutout)


# What every way of changing training images offers.


class Augmentation(Protocol):
    """A random change of normalised images. Its dataclass fields are its settings."""

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return changed images of the same shape, dtype and device; ``images`` [B, C, H, W] stay as they are.

        Args:
            images: normalised images of one batch of one client.
            draws: source of all random choices; called once a step, so that the draws go on from step to step.
        """
        ...


# No augmentation.


@dataclass(frozen=True)
class NoAugmentation:
    """Images as they are."""

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return ``images``."""
        return images


PLUGINS = {
    "crop-flip-cutout": CropFlipCutout,
    "none": NoAugmentation,
}
