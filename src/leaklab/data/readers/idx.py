"""Plain arrays: the idx format of the MNIST family, and archives of numpy's that users make themselves.

An idx file is a big-endian header and then the raw bytes, gzipped.

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".
"""

import gzip
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaklab.data.readers.base import Images, Labels, Samples, gather, pick, reading, split_in_order
from leaklab.records.errors import UserError

UNSIGNED_BYTE = 0x08
IMAGE_RANK = 3


@dataclass(frozen=True)
class Idx:
    """Four gzipped idx files: ``train_images``, ``train_labels``, ``test_images``, ``test_labels``.

    A source with a single part lists ``all_images`` and ``all_labels`` instead; the first 80 % of each class are
    then the training part.

    Attributes:
        transposed: the files hold columns as rows (EMNIST); the images are stored upright.
    """

    transposed: bool = False

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 1, H, W]."""
        if "all_images" in files:
            images, labels = self._part(files, "all")
            if not len(labels):
                raise UserError(f"{files['all_images']} holds no images: delete it and fetch it again")
            return gather(images, labels, *split_in_order(labels))
        return Samples(*self._part(files, "train"), *self._part(files, "test"))

    def _part(self, files: Mapping[str, Path], part: str) -> tuple[Images, Labels]:
        paths = [pick(files, f"{part}_{kind}") for kind in ("images", "labels")]
        images, labels = (decode(path.read_bytes(), str(path)) for path in paths)
        return images_and_labels(images, labels, str(paths[0]), transposed=self.transposed)


def images_and_labels(
    images: NDArray[np.uint8], labels: NDArray[np.uint8], name: str, *, transposed: bool
) -> tuple[Images, Labels]:
    """Return upright images [N, 1, H, W] and int64 labels [N] from idx arrays [N, H, W] and [N].

    Args:
        images: of one part.
        labels: of the same part.
        name: of the file with the images, used in error messages.
        transposed: the images have columns as rows.

    Raises:
        UserError: the arrays have other shapes.
    """
    if images.ndim != IMAGE_RANK or labels.shape != images.shape[:1]:
        shapes = f"images {list(images.shape)} for labels {list(labels.shape)}"
        raise UserError(f"{name} is no idx file of images with a label each ({shapes}): delete it and fetch it again")
    upright = images.transpose(0, 2, 1) if transposed else images
    return np.ascontiguousarray(upright[:, None]), labels.astype(np.int64)


def decode(compressed: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array of one gzipped idx file; ``name`` is used in error messages.

    Raises:
        UserError: not a gzipped idx file of unsigned bytes, or its length differs from its header.
    """
    try:
        raw = gzip.decompress(compressed)
        zero, kind, rank = struct.unpack(">HBB", raw[:4])
        shape = struct.unpack(f">{rank}I", raw[4 : 4 + 4 * rank])
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise UserError(f"{name} is no complete gzipped idx file ({error}): delete it and fetch it again") from None
    body = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * rank)
    try:
        if zero or kind != UNSIGNED_BYTE or len(body) != math.prod(shape):
            raise ValueError("its header does not fit its content")
        return body.reshape(shape)
    except ValueError as error:
        raise UserError(f"{name} is no idx file of bytes ({error}): delete it and fetch it again") from None


# The official EMNIST distribution: one zip with the gzipped idx files of all six splits.


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


# Archives of numpy's (npz) with images and labels by name.

PARTS = ("train_images", "train_labels", "test_images", "test_labels")
LARGEST_LABEL = 9_999


@dataclass(frozen=True)
class Arrays:
    """One npz file as role ``arrays``: ``PARTS``, or ``images`` and ``labels``, of which 80 % of each class train."""

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return its uint8 images [N, C, H, W] and its labels, from 0.

        Raises:
            UserError: no such archive, or arrays of another kind; says which.
        """
        path = pick(files, "arrays")
        advice = f"save it by numpy.savez with {', '.join(PARTS)}, or with images and labels"
        with reading(path, advice), np.load(path, allow_pickle=False) as archive:
            names = PARTS if "train_images" in archive else ("images", "labels")
            arrays = {name: archive[name] for name in names}
        for name in names[::2]:
            _check_pair(path, name, arrays[name], arrays[name.replace("images", "labels")])
        if len(names) == 2:
            images, labels = arrays["images"], arrays["labels"].astype(np.int64)
            return gather(images, labels, *split_in_order(labels))
        train, test = arrays["train_images"], arrays["test_images"]
        if train.shape[1:] != test.shape[1:]:
            raise UserError(f"{path}: images of the parts are {train.shape[1:]} and {test.shape[1:]}: make them alike")
        return Samples(train, arrays["train_labels"].astype(np.int64), test, arrays["test_labels"].astype(np.int64))


def _check_pair(path: Path, name: str, images: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse images and labels that are none, or do not belong together."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or not images.size:
        raise UserError(f"{path}: {name} is {images.dtype} {list(images.shape)}: make it uint8 [N, C, H, W], C 1 or 3")
    if labels.ndim != 1 or len(labels) != len(images) or labels.dtype.kind not in "iu":
        raise UserError(f"{path}: {name} has {len(images)} images: give as many labels, whole numbers from 0")
    if int(labels.min()) < 0 or int(labels.max()) > LARGEST_LABEL:
        raise UserError(f"{path}: labels of {name} go from {labels.min()} to {labels.max()}: number classes from 0")
