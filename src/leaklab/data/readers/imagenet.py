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
from leaklab.data.readers.pictures import as_stored, find
from leaklab.data.tree import Told, shown
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
            UserError: a part has no photographs, one that lies in no folder of a class that is trained on, or one of
                more than 8 bits or with transparency.
        """
        folders = {part: pick(files, part) for part in ("train", "test")}
        found, noticed = find(folders), Told()
        labels = {part: np.array([label for _, label in own], dtype=np.int64) for part, own in found.parts.items()}
        listing = {
            part: [(_listed(path, part, folders[part], noticed), bytes.fromhex(sha256(path))) for path, _ in own]
            for part, own in found.parts.items()
        }
        none = np.empty((0, 3, self.side, self.side), dtype=np.uint8)
        photographs, names = Listing(listing, self.side, self.shorter, MEAN, STD), tuple(map(shown, found.names))
        notes = found.notes(noticed)
        return Samples(none, labels["train"], none, labels["test"], names, photographs=photographs, notes=notes)


def _listed(path: Path, part: str, folder: Path, noticed: Told) -> str:
    """Return the name by which a photograph is opened later, as it is stored.

    Raises:
        UserError: it would then be another picture than is stored, or its name has a line break.
    """
    name = path.relative_to(folder).as_posix()
    if "\n" in name:
        raise UserError(f"{shown(path)}: lazy-folders keeps names without line breaks: rename the file")
    stored = as_stored(path)
    if stored.refused:
        raise UserError(
            f"{shown(path)} is {stored.refused}, which lazy-folders does not open: use the reader image-folders, or "
            "save it as RGB"
        )
    for kind in stored.noticed:
        noticed.add(kind, f"{part}/{name}")
    return name


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
