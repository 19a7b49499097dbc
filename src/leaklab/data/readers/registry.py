"""Readers by the name that ``config/datasets.yaml`` uses; a new format is one file and one line here."""

from dataclasses import fields

from leaklab.data.readers.base import Reader
from leaklab.data.readers.cifar import CifarArchive, CifarStrips
from leaklab.data.readers.embedded import Digits, FacePatches, Photographs
from leaklab.data.readers.folders import FaceArchive, ImageFolders, Leaf, TinyImageNet
from leaklab.data.readers.idx import EmnistZip, Idx
from leaklab.data.readers.imagenet import LazyFolders, NamedImages
from leaklab.records.record import Component

# Imported by name, not found by name: the digest of the code that fetch_dataset runs then covers every reader.
READERS: dict[str, type[Reader]] = {
    "cifar-archive": CifarArchive,
    "cifar-strips": CifarStrips,
    "digits": Digits,
    "emnist-zip": EmnistZip,
    "face-archive": FaceArchive,
    "face-patches": FacePatches,
    "idx": Idx,
    "image-folders": ImageFolders,
    "lazy-folders": LazyFolders,
    "leaf": Leaf,
    "named-images": NamedImages,
    "photographs": Photographs,
    "tiny-imagenet": TinyImageNet,
}


def make_reader(choice: Component) -> Reader:
    """Return the reader with its settings.

    Raises:
        ValueError: no such reader, a setting that it does not have, or one that it needs.
    """
    if choice.name not in READERS:
        raise ValueError(f"unknown reader '{choice.name}': choose from {', '.join(READERS)}")
    reader = READERS[choice.name]
    try:
        return reader(**choice.settings)
    except TypeError:
        accepted = ", ".join(field.name for field in fields(reader))  # type: ignore[arg-type]
        raise ValueError(f"reader '{choice.name}' takes the settings {accepted}") from None
