"""Random changes of training images: crop, flip and cutout as usual for CIFAR, resized crops as usual for ImageNet.

Sources: T. DeVries, G. Taylor, "Improved regularization of convolutional neural networks with cutout", 2017, which LRP
section 5.1 follows; C. Szegedy et al., "Going deeper with convolutions", 2015, section 6, for resized crops.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from leaklab.records.bounds import Natural, PartShare, Share
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


TRIES = 10
"""So many parts are drawn, of which the first counts that lies within the image."""
LONGEST = 4 / 3
"""Of a part: its longer side over its shorter one, at most."""


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of each image, enlarged or shrunk to one size, and mirrored or not.

    The part's area is uniform, the logarithm of its width over its height too; where none of ten draws lies within the
    image it is the middle square. Photographs that are in their files are cut out of the whole photograph
    (``data/photographs.py``), others out of what was made of them. Every call draws 23 numbers per image.

    Attributes:
        smallest: share of the image's area that a part has at least.
        flip: probability that an image is mirrored left to right.
    """

    smallest: PartShare = 0.08
    flip: Share = 0.5

    def windows(self, sizes: Tensor, draws: Stream) -> tuple[Tensor, Tensor]:
        """Return left, top, right and bottom of a part of each image, [B, 4] in pixels, and which are mirrored, [B].

        Args:
            sizes: width and height of each, int64, [B, 2].
            draws: source of all random choices.
        """
        uniform = draws.uniform(2 * TRIES + 3, len(sizes))
        whole = sizes.double().T
        share = self.smallest + (1 - self.smallest) * uniform[:TRIES]
        ratio = torch.exp(math.log(LONGEST) * (2 * uniform[TRIES : 2 * TRIES] - 1))
        area = share * whole.prod(0)
        found = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 1).round()  # [tries, 2, B]
        fits = ((found >= 1) & (found <= whole)).all(1)
        first = fits.to(torch.uint8).argmax(0)
        part = found[first, :, torch.arange(len(sizes))].T
        place = ((whole - part + 1) * uniform[-3:-1]).floor()
        middle = whole.min(0).values.expand(2, -1)
        none = ~fits.any(0)
        part, place = torch.where(none, middle, part), torch.where(none, ((whole - middle) / 2).floor(), place)
        return torch.cat([place, place + part]).T, uniform[-1] < self.flip

    def apply(self, images: Tensor, draws: Stream) -> Tensor:
        """Return changed images of the same size."""
        height, width = images.shape[2:]
        boxes, mirrored = self.windows(torch.tensor([[width, height]]).expand(len(images), 2), draws)
        parts = [
            interpolate(image[None, :, top:bottom, left:right], size=(height, width), mode="bilinear", antialias=True)
            for image, (left, top, right, bottom) in zip(images, boxes.long().tolist(), strict=True)
        ]
        made = torch.cat(parts)
        return torch.where(mirrored.to(images.device)[:, None, None, None], made.flip(3), made)


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
    "random-resized-crop": RandomResizedCrop,
}
