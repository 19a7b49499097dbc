"""scikit-learn's handwritten digits: 1,797 images of 8x8 pixels with 17 grey levels, enlarged to MNIST's size.

Source: E. Alpaydin, C. Kaynak, "Optical recognition of handwritten digits", UCI machine learning repository, 1998.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from leaklab.data.readers.base import Samples, gather, pick
from leaklab.data.readers.damage import reading
from leaklab.data.readers.splits import split_at_random
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
