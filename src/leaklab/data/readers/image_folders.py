"""Photographs in folders, one folder per class, as ILSVRC2012 (ImageNet) is unpacked; shrunk to one size.

Source: O. Russakovsky et al., "ImageNet large scale visual recognition challenge", 2015.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from leaklab.data.readers.base import Images, Labels, Samples, pick
from leaklab.data.readers.damage import DAMAGE
from leaklab.records.errors import UserError

SUFFIXES = {".jpeg", ".jpg", ".png", ".webp"}
CHANNELS = 3


@dataclass(frozen=True)
class ImageFolders:
    """Folders as roles ``train`` and ``test``. A class is a folder of the training part, in alphabetical order.

    The photographs are shrunk by averaging so that the shorter side fits, and the middle square is kept: the random
    crops of ImageNet training at full size are not possible with what is left. All images of a data set are one
    tensor, so full ImageNet at 224 pixels (193 GB) is refused, with the largest side that fits.

    Attributes:
        side: height and width in pixels.
        limit_gb: largest size of both parts together, in 10^9 bytes; preparing needs about three times as much memory.
    """

    side: int
    limit_gb: float = 20.0

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, side, side]."""
        folders = {role: pick(files, role) for role in ("train", "test")}
        names = sorted(path.name for path in folders["train"].iterdir() if path.is_dir())
        found = {role: _photographs(folder, names) for role, folder in folders.items()}
        self._check_size(sum(map(len, found.values())))
        return Samples(*self._part(found["train"]), *self._part(found["test"]), class_names=tuple(names))

    def _part(self, photographs: Sequence[tuple[Path, int]]) -> tuple[Images, Labels]:
        # filled in place: a list of the images and their array would need the memory twice
        images = np.empty((len(photographs), CHANNELS, self.side, self.side), dtype=np.uint8)
        for k, (path, _) in enumerate(photographs):
            images[k] = self._shrink(path)
        return images, np.array([label for _, label in photographs], dtype=np.int64)

    def _shrink(self, path: Path) -> Images:
        try:
            with Image.open(path) as image:
                square = ImageOps.fit(image.convert("RGB"), (self.side, self.side), Image.Resampling.BOX)
        except DAMAGE as error:
            raise UserError(f"{path} cannot be read as an image ({error}): unpack it again") from None
        return np.asarray(square).transpose(2, 0, 1)

    def _check_size(self, count: int) -> None:
        size = count * CHANNELS * self.side**2 / 1e9
        if size <= self.limit_gb:
            return
        largest = math.isqrt(int(self.limit_gb * 1e9 / (count * CHANNELS)))
        raise UserError(
            f"{count:,} images of {self.side} x {self.side} pixels are {size:.0f} GB, more than limit_gb "
            f"{self.limit_gb:g}: in config/datasets.yaml set side to at most {largest}, or raise limit_gb if three "
            f"times as much memory is there"
        )


def _photographs(folder: Path, names: Sequence[str]) -> list[tuple[Path, int]]:
    """Return all photographs of a part with their labels, class after class.

    Raises:
        UserError: there are none, or one lies in no folder of a class that is trained on.
    """
    label = {name: k for k, name in enumerate(names)}
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    strays = [path for path in found if path.parent.parent != folder or path.parent.name not in label]
    if strays or not found:
        problem = f"{strays[0]} lies in no folder of a trained class" if strays else f"{folder} has no images"
        raise UserError(f"{problem}: put each class's images into a folder of its own, {folder}/<class>/<image>.JPEG")
    return [(path, label[path.parent.name]) for path in found]
