"""Colour crops from the photographs that come with scikit-image and scikit-learn; a photograph is a class."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from leaklab.data.readers.base import Images, Samples, gather
from leaklab.data.readers.damage import reading
from leaklab.data.readers.splits import split_at_random
from leaklab.records.streams import stream

SPLIT_SEED = 0


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
