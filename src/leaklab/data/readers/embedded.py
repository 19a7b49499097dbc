"""scikit-learn's handwritten digits: 1,797 images of 8x8 pixels with 17 grey levels, enlarged to MNIST's size.

Source: E. Alpaydin, C. Kaynak, "Optical recognition of handwritten digits", UCI machine learning repository, 1998.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from leaklab.data.readers.base import Images, Samples, gather, pick, reading, split_at_random
from leaklab.records.streams import stream

BRIGHTEST = 16
SOURCE_SIDE = 8
SPLIT_SEED = 0


@dataclass(frozen=True)
class Digits:
    """The package's table, as role ``table``: 64 grey values and the label in each row.

    Attributes:
        side: height and width in pixels to which the images are enlarged (bicubic).
    """

    side: int = 28

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 1, side, side]; 80 % of each class, fixed, are the training part."""
        path = pick(files, "table")
        with reading(path):
            table = np.loadtxt(path, delimiter=",", dtype=np.int64)
            grey = np.round(table[:, :-1] * (255 / BRIGHTEST)).astype(np.uint8).reshape(-1, SOURCE_SIDE, SOURCE_SIDE)
        size = (self.side, self.side)
        images = np.stack([np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BICUBIC)) for i in grey])
        labels = table[:, -1]
        return gather(images[:, None], labels, *split_at_random(labels, stream(SPLIT_SEED, "digits", "split")))


# scikit-image's patches of Labeled Faces in the Wild: 100 faces, then 100 patches of background, 25x25, grey.
FACE, BACKGROUND = 0, 1


@dataclass(frozen=True)
class FacePatches:
    """The package's array, as role ``patches``: [200, 25, 25] floats in [0, 1], the first half of them faces.

    Attributes:
        side: height and width in pixels to which the patches are enlarged (bicubic).
    """

    side: int = 32

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 1, side, side]; label 0 is a face, 1 is background."""
        path = pick(files, "patches")
        with reading(path):
            patches = np.load(path, allow_pickle=False)
            grey = np.round(patches * 255).astype(np.uint8)
        size = (self.side, self.side)
        images = np.stack([np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BICUBIC)) for i in grey])
        labels = np.repeat(np.array([FACE, BACKGROUND], dtype=np.int64), len(images) // 2)
        return gather(images[:, None], labels, *split_at_random(labels, stream(SPLIT_SEED, "faces", "split")))


# Colour crops from the photographs that come with scikit-image and scikit-learn; a photograph is a class.


@dataclass(frozen=True)
class Photographs:
    """Image files; their roles are the class names, in the order in which they are listed.

    The centre square of a photograph is shrunk by averaging and cut into a grid of crops that do not overlap, so
    that no pixel is in both the training and the test part.

    Attributes:
        side: height and width of a crop in pixels.
        grid: crops per row and per column.
    """

    side: int = 32
    grid: int = 8

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, side, side]; 80 % of each class, fixed, are the training part."""
        images = np.concatenate([self._crops(path) for path in files.values()])
        labels = np.repeat(np.arange(len(files)), self.grid**2)
        split = split_at_random(labels, stream(SPLIT_SEED, "photographs", "split"))
        return gather(images, labels, *split, class_names=tuple(files))

    def _crops(self, path: Path) -> Images:
        edge = self.grid * self.side
        with reading(path):
            square = ImageOps.fit(Image.open(path).convert("RGB"), (edge, edge), Image.Resampling.BOX)
        tiles = np.asarray(square).reshape(self.grid, self.side, self.grid, self.side, 3)
        return tiles.transpose(0, 2, 4, 1, 3).reshape(-1, 3, self.side, self.side)
