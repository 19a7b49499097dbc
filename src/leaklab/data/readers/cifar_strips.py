"""The mirror's CIFAR files: tars of lossless WebP strips (100 images below each other) with a table of labels."""

import csv
import io
import lzma
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from leaklab.data.readers.base import Images, Labels, Samples
from leaklab.data.readers.damage import reading
from leaklab.records.errors import UserError

SIDE = 32
TABLE = "meta.csv.xz"


@dataclass(frozen=True)
class CifarStrips:
    """Tars as roles ``train_1``, ``train_2``, ... and ``test_1``, ..., read in the order in which they are listed.

    Attributes:
        label: the table's column that holds the label.
    """

    label: str = "label"

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, 32, 32]."""
        parts = [self._part([path for role, path in files.items() if role.startswith(p)]) for p in ("train", "test")]
        return Samples(*parts[0], *parts[1])

    def _part(self, paths: list[Path]) -> tuple[Images, Labels]:
        tars = []
        for path in paths:
            with reading(path):
                tars.append(self._tar(path))
        return np.concatenate([images for images, _ in tars]), np.concatenate([labels for _, labels in tars])

    def _tar(self, path: Path) -> tuple[Images, Labels]:
        with tarfile.open(path) as tar:
            contents = {member.name: _content(tar, member) for member in tar if member.isfile()}
        rows = list(csv.DictReader(io.StringIO(lzma.decompress(contents.pop(TABLE)).decode())))
        # the names of the strips are the zero-padded index of their first image
        images = np.concatenate([_strip(contents[name]) for name in sorted(contents)])
        if len(rows) != len(images) or self.label not in rows[0]:
            raise UserError(f"{path} holds {len(images)} images but {len(rows)} labels in a column '{self.label}'")
        return images, np.array([int(row[self.label]) for row in rows], dtype=np.int64)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    handle = tar.extractfile(member)
    return handle.read() if handle else b""


def _strip(encoded: bytes) -> Images:
    pixels = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    return np.ascontiguousarray(pixels.reshape(-1, SIDE, SIDE, 3).transpose(0, 3, 1, 2))
