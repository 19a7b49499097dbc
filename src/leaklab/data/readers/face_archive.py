"""Labeled Faces in the Wild, deep-funneled: a tar.gz of JPEG photographs, one folder per person.

Source: G. Huang, M. Mattar, H. Lee, E. Learned-Miller, "Learning to align from scratch", 2012.
"""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from leaklab.data.readers.base import Images, Samples, gather, pick
from leaklab.data.readers.damage import ADVICE, reading
from leaklab.data.readers.splits import split_in_order
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class FaceArchive:
    """The tar.gz, as role ``archive``. A class is a person, in alphabetical order.

    The distribution has no training part: the first 80 % of each person's photographs, by number, are taken for
    training and the rest for testing; a person with one photograph is only trained on.

    Attributes:
        side: height and width in pixels to which the photographs are shrunk by averaging.
    """

    side: int = 32

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, side, side]."""
        archive = pick(files, "archive")
        photographs: dict[tuple[str, str], Images] = {}
        with reading(archive), tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                path = PurePosixPath(member.name)
                handle = tar.extractfile(member) if path.suffix == ".jpg" else None
                if handle:
                    photographs[path.parent.name, path.name] = self._shrink(handle.read())
        if not photographs:
            raise UserError(f"{archive} holds no photographs: {ADVICE}")
        people = sorted({person for person, _ in photographs})
        number = {person: label for label, person in enumerate(people)}
        ordered = sorted(photographs)
        images = np.stack([photographs[key] for key in ordered])
        labels = np.array([number[person] for person, _ in ordered], dtype=np.int64)
        return gather(images, labels, *split_in_order(labels), class_names=tuple(people))

    def _shrink(self, encoded: bytes) -> Images:
        image = Image.open(io.BytesIO(encoded)).convert("RGB")
        return np.asarray(image.resize((self.side, self.side), Image.Resampling.BOX)).transpose(2, 0, 1)
