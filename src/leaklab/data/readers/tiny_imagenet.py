"""Tiny ImageNet as it is distributed: one archive with a folder per training class and a list of validation labels.

Source: Y. Le, X. Yang, "Tiny ImageNet visual recognition challenge", Stanford CS231N, 2015.
"""

import io
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from leaklab.data.readers.base import Images, Labels, Samples, pick
from leaklab.data.readers.damage import DAMAGE, reading
from leaklab.records.errors import UserError

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
