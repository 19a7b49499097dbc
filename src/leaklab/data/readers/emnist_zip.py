"""The official EMNIST distribution: one zip with the gzipped idx files of all six splits.

Source: G. Cohen, S. Afshar, J. Tapson, A. van Schaik, "EMNIST: an extension of MNIST to handwritten letters", 2017.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leaklab.data.readers.base import Images, Labels, Samples, pick
from leaklab.data.readers.damage import reading
from leaklab.data.readers.idx import decode, images_and_labels
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class EmnistZip:
    """The zip, as role ``archive``.

    Attributes:
        split: ``balanced``, ``byclass``, ...: the word after ``emnist-`` in the names of the members.
    """

    split: str

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return upright uint8 images [N, 1, 28, 28]."""
        path = pick(files, "archive")
        with reading(path), zipfile.ZipFile(path) as archive:
            return Samples(*self._part(archive, "train"), *self._part(archive, "test"))

    def _part(self, archive: zipfile.ZipFile, part: str) -> tuple[Images, Labels]:
        names = [f"gzip/emnist-{self.split}-{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
        try:
            images, labels = (decode(archive.read(name), f"{archive.filename}:{name}") for name in names)
        except KeyError as error:
            raise UserError(f"{archive.filename}: {error.args[0]}: check the reader's split '{self.split}'") from None
        return images_and_labels(images, labels, f"{archive.filename}:{names[0]}", transposed=True)
