"""Photographs in folders, one folder per class, as ILSVRC2012 (ImageNet) is unpacked; shrunk to one size.

Source: O. Russakovsky et al., "ImageNet large scale visual recognition challenge", 2015.
"""

import io
import json
import math
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from leaklab.data.readers.base import ADVICE, DAMAGE, Images, Labels, Samples, gather, pick, reading, split_in_order
from leaklab.data.readers.pictures import Decoding, White, find
from leaklab.data.tree import Told, shown
from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError

CHANNELS = 3


@dataclass(frozen=True)
class ImageFolders:
    """Folders as roles ``train`` and ``test``. A class is a folder of the training part, in alphabetical order.

    The photographs are shrunk by averaging so that the shorter side fits, and the middle square is kept: the random
    crops of ImageNet training at full size are not possible with what is left. All images of a data set are one
    tensor, so full ImageNet at 224 pixels (193 GB) is refused, with the largest side that fits.

    Attributes:
        side: height and width in pixels.
        limit_gb: largest size of both parts together, in 10^9 bytes; preparing needs about three times as much memory.
        background: name of the color on which transparent pixels are put.
        white: the number that is white in gray pictures beyond 8 bits; None: the largest of their bits, 1 of floats.
    """

    side: Count
    limit_gb: Positive = 20.0
    background: str = "white"
    white: White | None = None

    def __post_init__(self) -> None:
        """Refuse a color that there is not."""
        Decoding(self.background, self.white)

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, side, side], and what was left out and changed."""
        folders = {role: pick(files, role) for role in ("train", "test")}
        found, noticed = find(folders), Told()
        self._check_size(sum(map(len, found.parts.values())))
        parts = [self._part(role, own, noticed) for role, own in found.parts.items()]
        return Samples(*parts[0], *parts[1], tuple(map(shown, found.names)), notes=found.notes(noticed))

    def _part(self, role: str, photographs: Sequence[tuple[Path, int]], noticed: Told) -> tuple[Images, Labels]:
        # filled in place: a list of the images and their array would need the memory twice
        images = np.empty((len(photographs), CHANNELS, self.side, self.side), dtype=np.uint8)
        decoding = Decoding(self.background, self.white)
        for k, (path, _) in enumerate(photographs):
            whole, done = decoding.picture(path)
            square = ImageOps.fit(whole, (self.side, self.side), Image.Resampling.BOX)
            images[k] = np.asarray(square).transpose(2, 0, 1)
            if min(whole.size) < self.side:
                done.append(f"smaller than {self.side}x{self.side}, enlarged")
            if (images[k] == images[k, :, :1, :1]).all():
                done.append("of one color all over")
            for kind in done:
                noticed.add(kind, f"{role}/{path.parent.name}/{path.name}")
        return images, np.array([label for _, label in photographs], dtype=np.int64)

    def _check_size(self, count: int) -> None:
        size = count * CHANNELS * self.side**2 / 1e9
        if size <= self.limit_gb:
            return
        largest = math.isqrt(int(self.limit_gb * 1e9 / (count * CHANNELS)))
        raise UserError(
            f"{count:,} images of {self.side} x {self.side} pixels are {size:.0f} GB, more than limit_gb "
            f"{self.limit_gb:g}: in config/datasets.yaml set side to at most {largest}, or raise limit_gb if three "
            f"times as much memory is there"
        )


# Tiny ImageNet as it is distributed: one archive with a folder per training class and a list of validation labels.

SHAPE = (64, 64, 3)
ANNOTATIONS = "val_annotations.txt"


@dataclass(frozen=True)
class TinyImageNet:
    """The zip, or a tar.gz laid out like it, as role ``archive``. The validation images test.

    A class is a folder of the training part, in alphabetical order; the images of a part stand by class and then by
    number. The official test images have no labels and are left out.
    """

    def read(self, files: Mapping[str, Path]) -> Samples:
        """Return uint8 images [N, 3, 64, 64]; grey photographs have three equal channels.

        Raises:
            UserError: the archive is laid out otherwise, or a file in it is no image of that size.
        """
        archive = pick(files, "archive")
        with reading(archive):
            return self._samples(archive)

    def _samples(self, archive: Path) -> Samples:
        members = {PurePosixPath(name): content for name, content in _members(archive)}
        trained = {path: path.parent.parent.name for path in members if path.match("train/*/images/*.JPEG")}
        held_out = {path: path.name for path in members if path.match("val/images/*.JPEG")}
        listed = [content for path, content in members.items() if path.name == ANNOTATIONS]
        class_of = dict(line.split("\t")[:2] for line in b"".join(listed).decode().splitlines())
        tested = {path: class_of.get(file, "") for path, file in held_out.items()}
        classes = tuple(sorted(set(trained.values())))
        if not tested or not set(tested.values()) <= set(classes):
            raise UserError(f"{archive}: not the layout of tiny-imagenet-200 with its {ANNOTATIONS}: get it again")
        train, test = (_part(members, part, classes, archive) for part in (trained, tested))
        return Samples(*train, *test, class_names=classes)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield from ((name, opened.read(name)) for name in opened.namelist() if not name.endswith("/"))
        return
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            if handle := tar.extractfile(member):
                yield member.name, handle.read()


def _part(
    members: Mapping[PurePosixPath, bytes], part: Mapping[PurePosixPath, str], classes: tuple[str, ...], archive: Path
) -> tuple[Images, Labels]:
    ordered = sorted(part, key=lambda path: (part[path], int(path.stem.rsplit("_", 1)[1])))
    # filled in place: a list of the images and their array would need the memory twice
    images = np.empty((len(ordered), *SHAPE), dtype=np.uint8)
    for k, path in enumerate(ordered):
        try:
            images[k] = np.asarray(Image.open(io.BytesIO(members[path])).convert("RGB"))
        except DAMAGE as error:
            raise UserError(f"{archive}: {path} is no image of 64 x 64 pixels ({error}): get it again") from None
    labels = np.array([classes.index(part[path]) for path in ordered], dtype=np.int64)
    return images.transpose(0, 3, 1, 2), labels


# Labeled Faces in the Wild, deep-funneled: a tar.gz of JPEG photographs, one folder per person.


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


# FEMNIST in the format of the LEAF benchmark: folders of JSON files, images grouped by who wrote them.

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
