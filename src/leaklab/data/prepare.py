"""From checked files to the two artefacts of a prepared dataset."""

from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from leaklab.data.catalog import CATALOG, Entry
from leaklab.data.dataset import channel_moments
from leaklab.data.fetch import Fetched
from leaklab.data.fit import refuse_unfit
from leaklab.data.labels import GROUPS, PHOTOGRAPHS
from leaklab.data.photographs import listed
from leaklab.data.readers.base import Listing, Reader
from leaklab.data.readers.cifar import CifarArchive, CifarStrips
from leaklab.data.readers.embedded import Digits, FacePatches, Photographs
from leaklab.data.readers.folders import FaceArchive, ImageFolders, Leaf, TinyImageNet
from leaklab.data.readers.idx import Arrays, EmnistZip, Idx
from leaklab.data.readers.imagenet import LazyFolders, NamedImages
from leaklab.data.tree import shown
from leaklab.records.errors import UserError
from leaklab.records.purity import watched
from leaklab.records.record import Component


@dataclass(frozen=True, eq=False)
class Prepared:
    """Content of ``<dataset>.safetensors`` and of its card ``<dataset>.json``; see ``Dataset.load``."""

    tensors: dict[str, Tensor]
    card: dict[str, Any]


def check_readers(name: str, entry: Entry) -> None:
    """Check the readers of all sources of dataset ``name``, before anything is downloaded for them.

    Raises:
        UserError: an unknown reader or setting; the message names the key in the catalog.
    """
    for kind in ("embedded", "mirror", "official", "own"):
        source = getattr(entry, kind)
        try:
            if source:
                make_reader(source.reader)
        except ValueError as error:
            raise UserError(f"{CATALOG}: {name}.{kind}.reader: {error}") from None


def prepare(name: str, entry: Entry, fetched: Fetched) -> Prepared:
    """Decode the files and describe them.

    Args:
        name: the dataset's key in the catalog.
        entry: its catalog entry.
        fetched: its verified files.

    Raises:
        UserError: a file is damaged, or what it holds does not fit the entry.
    """
    reader = make_reader(fetched.source.reader)
    with watched(reader, call="read", draws="records.draws.draws(0, name)"):
        samples = reader.read(fetched.paths())
    lazily = samples.photographs
    tensors = {
        part: torch.from_numpy(getattr(samples, part).copy())
        for part in ("train_images", "train_labels", "test_images", "test_labels")
        if lazily is None or not part.endswith("images")
    }
    if samples.train_groups is not None:
        tensors[GROUPS] = torch.from_numpy(samples.train_groups.copy())
    if lazily is None:
        (mean, std), shape = channel_moments(tensors["train_images"]), list(tensors["train_images"].shape[1:])
    else:
        mean, std, shape = list(lazily.mean), list(lazily.std), [len(lazily.mean), lazily.side, lazily.side]
        for part, files in lazily.files.items():
            tensors |= listed(files, part)
    card = {
        "name": name,
        "title": entry.title,
        "num_classes": fetched.source.num_classes or (_counted(tensors) if entry.own else entry.num_classes),
        "class_names": [shown(one) for one in samples.class_names or entry.class_names],
        "shape": shape,
        "train_size": len(tensors["train_labels"]),
        "test_size": len(tensors["test_labels"]),
        "mean": mean,
        "std": std,
        "files": [found.card() for found in fetched.files.values()],
        "substitute": fetched.source.substitute,
        "licence": entry.licence,
        "citation": entry.citation,
        **({} if lazily is None else {PHOTOGRAPHS: _made(fetched, lazily)}),
        **samples.notes,
    }
    refuse_unfit(entry, samples, card)
    return Prepared(tensors, card)


def _counted(tensors: dict[str, Tensor]) -> int:
    """Return the classes of data that no catalog describes: labels are numbered from 0."""
    return 1 + max(int(tensors[f"{part}_labels"].max()) for part in ("train", "test"))


def _made(fetched: Fetched, listing: Listing) -> dict[str, Any]:
    """Return what a card says of photographs that stay in their files: where, and what is made of them."""
    folders = {part: fetched.files[part].listed for part in listing.files}
    return {"side": listing.side, "shorter": listing.shorter, "folders": folders}


# Readers by the name that ``config/datasets.yaml`` uses; a new format is one file and one line here.


# Imported by name, not found by name: the digest of the code that fetch_dataset runs then covers every reader.
READERS: dict[str, type[Reader]] = {
    "arrays": Arrays,
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
    types = get_type_hints(reader, include_extras=True)
    for name, value in choice.settings.items():
        try:
            TypeAdapter(types.get(name, Any)).validate_python(value, strict=True)
        except ValidationError as error:
            raise ValueError(f"{name}: {error.errors()[0]['msg']}, not {value!r}") from None
    try:
        return reader(**choice.settings)
    except TypeError:
        accepted = ", ".join(field.name for field in fields(reader))  # type: ignore[arg-type]
        raise ValueError(f"reader '{choice.name}' takes the settings {accepted}") from None
