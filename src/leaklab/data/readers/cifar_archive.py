"""The official Python archives of CIFAR-10 and CIFAR-100.

Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaklab.data.readers.base import Images, Labels, Samples, pick
from leaklab.data.readers.damage import reading
from leaklab.data.readers.restricted_pickle import loads
from leaklab.records.errors import UserError

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
