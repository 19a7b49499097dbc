"""What every reader returns, and what it is handed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaklab.records.errors import UserError

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
    """

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    class_names: tuple[str, ...] = ()
    train_groups: Labels | None = None


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
