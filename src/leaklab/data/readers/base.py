"""What every reader returns, and what it is handed."""

import csv
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Samples:
    """A dataset's two parts as plain arrays.

    Attributes:
        train_images: uint8, [N, C, H, W], as are ``test_images``.
        train_labels: int64, [N], from 0, as are ``test_labels``.
        class_names: names by label where the files themselves tell them, else empty.
        train_groups: int64, [N], the same number for training images of one writer; None where the files do not say.
        photographs: where images stay in their files; the parts then hold none.
        notes: what the card says besides: ``left_out`` and ``noticed``, kinds of files with a number and an example.
    """

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    class_names: tuple[str, ...] = ()
    train_groups: Labels | None = None
    photographs: "Listing | None" = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Listing:
    """Photographs that stay in their files (``data/photographs.py``).

    Attributes:
        files: by part, the relative path and the SHA-256 of each file.
        side: height and width in pixels of what is made of a photograph.
        shorter: to so many pixels the shorter side is shrunk before the middle square is taken.
        mean: of each channel on the [0, 1] scale.
        std: standard deviation likewise.
    """

    files: Mapping[str, Sequence[tuple[str, bytes]]]
    side: int
    shorter: int
    mean: Sequence[float]
    std: Sequence[float]


class Reader(Protocol):
    """Decodes one format. Its dataclass fields are the settings that ``config/datasets.yaml`` may give."""

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Decode files or folders, named by the roles in ``config/datasets.yaml``; their checksums are known."""
        ...


def pick(files: Mapping[str, Path], role: str) -> Path:
    """Return the file that plays ``role``.

    Raises:
        UserError: the source lists no such file.
    """
    if role not in files:
        raise UserError(f"config/datasets.yaml: a source needs a file called '{role}', it has {', '.join(files)}")
    return files[role]


def gather(images: Images, labels: Labels, train: Labels, test: Labels, class_names: tuple[str, ...] = ()) -> Samples:
    """Return the samples at the indices ``train`` and ``test``."""
    return Samples(images[train], labels[train], images[test], labels[test], class_names)


# Damaged archives and pictures: whatever their parsers raise becomes one line that names the file.

# what tarfile, zipfile, gzip, lzma, csv, Pillow and numpy raise about bytes that they cannot make sense of; running
# out of memory is none of them
DAMAGE = (
    ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
    csv.Error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile, zlib.error,
    Image.DecompressionBombError,
)  # fmt: skip
SHOWN = 100
ADVICE = "get the official file again"


@contextmanager
def reading(path: Path | str, advice: str = ADVICE) -> Iterator[None]:
    """Decode a file inside; what its parser stumbles over is told of that file.

    Args:
        path: of the file, as the user knows it.
        advice: what to do about it; ends the error message.

    Raises:
        UserError: the file is damaged or holds something else.
    """
    try:
        yield
    except DAMAGE as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:SHOWN]
        raise UserError(f"{path} cannot be read ({what}): {advice}") from None


# Training and test parts of a source that publishes only one; every class is split on its own.

TRAIN_SHARE = 0.8


def split_in_order(labels: Labels) -> tuple[Labels, Labels]:
    """Put the first 80 % of each class, in the given order, in the training part.

    The share is rounded down, but a class with a single sample is trained on rather than tested on.

    Args:
        labels: [N].

    Returns:
        The indices of the training and of the test part, each class after class.
    """
    return _split([np.flatnonzero(labels == label) for label in np.unique(labels)])


def split_at_random(labels: Labels, stream: Stream) -> tuple[Labels, Labels]:
    """Like ``split_in_order`` after shuffling each class; both parts keep the order of the source."""
    classes = [torch.as_tensor(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    train, test = _split([members[stream.permutation(len(members))].numpy() for members in classes])
    return np.sort(train), np.sort(test)


def _split(classes: list[Labels]) -> tuple[Labels, Labels]:
    cuts = [max(1, int(TRAIN_SHARE * len(members))) for members in classes]
    train = np.concatenate([members[:cut] for members, cut in zip(classes, cuts, strict=True)])
    test = np.concatenate([members[cut:] for members, cut in zip(classes, cuts, strict=True)])
    return train, test
