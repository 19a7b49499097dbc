"""ImageNet in other forms: a sample of images that tell their class by their names, and folders that stay as they are.

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

from leaklab.data.readers.base import ADVICE, Images, Listing, Samples, gather, pick, reading
from leaklab.data.readers.folders import photographs_of
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError
from leaklab.records.files import sha256

# Photographs in folders, one folder per class, of which only a list is prepared.

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's training part, as public code has them: to compute them would take to open all photographs."""


@dataclass(frozen=True)
class LazyFolders:
    """Folders as roles ``train`` and ``test``, as for ``image-folders``; they are opened when a batch wants them.

    So images of full size can be trained on, and each crop is cut out of the whole photograph. The usual mean and
    deviation of ImageNet normalise them.

    Attributes:
        side: height and width in pixels of an image that a network gets.
        shorter: to so many pixels the shorter side of a photograph is shrunk for tests, of which the middle is taken.
    """

    side: Count = 224
    shorter: Count = 256

    def __post_init__(self) -> None:
        """Refuse a middle that is larger than what it is taken of."""
        if self.shorter < self.side:
            raise ValueError(f"shorter is {self.shorter}, less than side {self.side}: raise it")

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return labels, and where the photographs are.

        Raises:
            UserError: a part has no photographs, or one that lies in no folder of a class that is trained on.
        """
        folders = {part: pick(files, part) for part in ("train", "test")}
        names = sorted(path.name for path in folders["train"].iterdir() if path.is_dir())
        found = {part: photographs_of(folder, names) for part, folder in folders.items()}
        labels = {part: np.array([label for _, label in own], dtype=np.int64) for part, own in found.items()}
        listing = {
            part: [(path.relative_to(folders[part]).as_posix(), bytes.fromhex(sha256(path))) for path, _ in own]
            for part, own in found.items()
        }
        none = np.empty((0, 3, self.side, self.side), dtype=np.uint8)
        photographs = Listing(listing, self.side, self.shorter, MEAN, STD)
        return Samples(none, labels["train"], none, labels["test"], tuple(names), photographs=photographs)


# A sample of single images, in an archive.

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
