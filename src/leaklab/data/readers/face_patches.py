"""scikit-image's patches of Labeled Faces in the Wild: 100 faces, then 100 patches of background, 25x25, grey.

Source: G. Huang, M. Mattar, H. Lee, E. Learned-Miller, "Learning to align from scratch", 2012.
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

SPLIT_SEED = 0
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
