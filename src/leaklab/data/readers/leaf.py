"""FEMNIST in the format of the LEAF benchmark: folders of JSON files, images grouped by who wrote them.

Source: S. Caldas et al., "LEAF: a benchmark for federated settings", 2018.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leaklab.data.readers.base import Images, Labels, Samples, pick
from leaklab.records.errors import UserError

SIDE = 28
BRIGHTEST = 255


@dataclass(frozen=True, eq=False)
class _Part:
    images: Images
    labels: Labels
    writers: list[str]


@dataclass(frozen=True)
class Leaf:
    """Folders as roles ``train`` and ``test``, read file by file in the order of their names.

    A file holds ``users``, ``num_samples`` and ``user_data``: for each user the images ``x`` (784 grey values from 0 to
    1, dark ink on white, row by row) and the labels ``y`` (0-9 digits, 10-35 capitals, 36-61 small letters).

    Attributes:
        classes: images with labels from this number upwards are left out; 10 keeps the digits.
    """

    classes: int = 62

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 1, 28, 28] with ink as dark as in the files, and who wrote the training images."""
        train, test = (self._part(pick(files, role)) for role in ("train", "test"))
        number = {writer: k for k, writer in enumerate(sorted(set(train.writers)))}
        groups = np.array([number[writer] for writer in train.writers], dtype=np.int64)
        return Samples(train.images, train.labels, test.images, test.labels, train_groups=groups)

    def _part(self, folder: Path) -> _Part:
        images, labels, writers = [], [], []
        for path in sorted(folder.glob("*.json")):
            for writer, x, y in _users(path):
                kept = y < self.classes
                images.append(x[kept])
                labels.append(y[kept])
                writers += [writer] * int(kept.sum())
        if not writers:
            raise UserError(
                f"{folder} has no *.json file with labels below {self.classes}: make it with LEAF's scripts"
            )
        return _Part(np.concatenate(images), np.concatenate(labels), writers)


def _users(path: Path) -> Iterator[tuple[str, Images, Labels]]:
    """Yield name, images [n, 1, 28, 28] and labels [n] of each user of a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for user, samples in zip(content["users"], content["num_samples"], strict=True):
            yield user, *_arrays(content["user_data"][user], samples)
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is no FEMNIST file in LEAF's format ({type(error).__name__}: {error}): make it anew"
        ) from None


def _arrays(data: Mapping[str, Any], samples: int) -> tuple[Images, Labels]:
    grey = np.array(data["x"], dtype=np.float64).reshape(-1, 1, SIDE, SIDE)
    labels = np.array(data["y"], dtype=np.int64)
    if not len(grey) == len(labels) == samples or labels.ndim != 1:
        raise ValueError(f"{len(grey)} images and {len(labels)} labels where num_samples says {samples}")
    if not ((grey >= 0) & (grey <= 1)).all():
        raise ValueError("grey values are not all from 0 to 1")
    return np.round(grey * BRIGHTEST).astype(np.uint8), labels
