"""The official Python archives of CIFAR-10 and CIFAR-100.

Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

import csv
import io
import lzma
import pickle  # only ever through the class below, on two archives whose checksums were right
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from leaklab.data.readers.base import DAMAGE, Images, Labels, Samples, pick, reading
from leaklab.records.errors import UserError

# The mirror's CIFAR files: tars of lossless WebP strips (100 images below each other) with a table of labels.

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


# An unpickler for the two official CIFAR archives: plain containers, numbers, strings and numpy arrays only.

_RECONSTRUCT = np.empty(0).__reduce__()[0]
# numpy moved the module of its array constructor in version 2; the archives were written long before
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return ALLOWED[module, name]


def loads(content: bytes, name: str) -> Any:
    """Return the object in ``content``, a pickle of Python 2 or 3; ``name`` is used in error messages.

    Raises:
        UserError: the pickle is damaged, or asks for anything but arrays and plain containers or for too much memory.
    """
    try:
        # Python 2 strings hold bytes 0-255, which latin1 maps one to one; numpy turns them into array data
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except (pickle.UnpicklingError, *DAMAGE) as error:
        raise UserError(f"{name} is refused ({error}): it is not the official file, delete it") from None
    except MemoryError:
        raise UserError(
            f"{name} asks for more memory than is there: delete it, or free memory if it is the official file"
        ) from None


SHAPE = (3, 32, 32)


@dataclass(frozen=True)
class Layout:
    """Names inside an archive: the members of either part, in order, and the key of the labels."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    label: str


LAYOUTS = {
    10: Layout(
        train=tuple(f"cifar-10-batches-py/data_batch_{k}" for k in range(1, 6)),
        test=("cifar-10-batches-py/test_batch",),
        label="labels",
    ),
    100: Layout(train=("cifar-100-python/train",), test=("cifar-100-python/test",), label="fine_labels"),
}


@dataclass(frozen=True)
class CifarArchive:
    """The tar.gz, as role ``archive``; its batches are pickles, read without running any code.

    Attributes:
        classes: 10 or 100: which of the two archives it is.
    """

    classes: int

    def __post_init__(self) -> None:
        if self.classes not in LAYOUTS:
            raise ValueError("classes must be 10 or 100")

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, 32, 32] in the official order."""
        path, layout = pick(files, "archive"), LAYOUTS[self.classes]
        with reading(path), tarfile.open(path, "r:gz") as tar:
            # members are read in the order of the archive: seeking back would decompress it anew
            wanted = {*layout.train, *layout.test}
            batches = {m.name: self._batch(tar, m, path) for m in tar if m.name in wanted}
        if missing := sorted(wanted - set(batches)):
            raise UserError(f"{path} has no member {missing[0]}: it is not the official archive")
        with reading(path):
            return Samples(*_join([batches[n] for n in layout.train]), *_join([batches[n] for n in layout.test]))

    def _batch(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> tuple[Images, Labels]:
        handle = tar.extractfile(member)
        batch = loads(handle.read() if handle else b"", f"{path}:{member.name}")
        return batch["data"].reshape(-1, *SHAPE), np.array(batch[LAYOUTS[self.classes].label], dtype=np.int64)


def _join(batches: list[tuple[Images, Labels]]) -> tuple[Images, Labels]:
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])
