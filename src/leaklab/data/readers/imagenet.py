"""ImageNet in other forms than its folders: a sample of single images that tell their class by their names.

Source: O. Russakovsky et al., "ImageNet large scale visual recognition challenge", 2015.
"""

import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from leaklab.data.readers.base import ADVICE, Images, Samples, gather, pick, reading
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError

NAME = re.compile(r"(\d+)_(n\d+)")
"""Number of the class, in the usual order, and its name in WordNet."""


@dataclass(frozen=True)
class NamedImages:
    """A tar.gz of images ``<class>_<wnid>.webp`` of one size, as role ``archive``.

    With one image of each class no part can have all of them: every ``every``-th image by its class tests, the others
    are the training part. So attacked images, which are those that test, never stand among public ones.

    Attributes:
        every: distance between the classes whose images test.
    """

    every: Count = 10

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, H, W].

        Raises:
            UserError: a file of another name, images of different sizes, or classes that are not 0, 1, 2, ...
        """
        archive = pick(files, "archive")
        with reading(archive), tarfile.open(archive, "r:gz") as tar:
            found = sorted(self._image(tar, member, archive) for member in tar if member.isfile())
        numbers = [number for number, _, _ in found]
        if numbers != list(range(len(found))) or not found:
            raise UserError(f"{archive} does not hold one image of each class 0, 1, 2, ...: {ADVICE}")
        sizes = {image.shape for *_, image in found}
        if len(sizes) > 1:
            raise UserError(f"{archive} holds images of {len(sizes)} sizes: {ADVICE}")
        labels = np.array(numbers, dtype=np.int64)
        tested = labels % self.every == 0
        names = tuple(name for _, name, _ in found)
        return gather(np.stack([image for *_, image in found]), labels, labels[~tested], labels[tested], names)

    def _image(self, tar: tarfile.TarFile, member: tarfile.TarInfo, archive: Path) -> tuple[int, str, Images]:
        told, handle = NAME.fullmatch(PurePosixPath(member.name).stem), tar.extractfile(member)
        if told is None or handle is None:
            raise UserError(f"{archive}: '{member.name}' is not called <class>_<wnid>: {ADVICE}")
        pixels = np.asarray(Image.open(io.BytesIO(handle.read())).convert("RGB"))
        return int(told[1]), told[2], np.ascontiguousarray(pixels.transpose(2, 0, 1))
