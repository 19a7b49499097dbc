"""Whether a data set is what its entry in the catalog says: asked where it is prepared, before anything reads it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from leaklab.data.catalog import CATALOG, Entry
from leaklab.data.readers.base import Samples
from leaklab.records.errors import UserError

SHOWN = 5
"""Names of classes in a message."""
BRIGHTEST = 255


def refuse_unfit(entry: Entry, samples: Samples, card: Mapping[str, Any]) -> None:
    """Compare the parts of a data set with each other and with what its card is to say.

    Raises:
        UserError: they do not fit; says what to write in the catalog, or to change in the files.
    """
    problem = next(_problems(entry, samples, card), None)
    if problem is not None:
        place = card["title"] if entry.own else f"{CATALOG}: {card['name']}"
        raise UserError(f"{place}: {problem}")


def _problems(entry: Entry, samples: Samples, card: Mapping[str, Any]) -> Iterator[str]:
    """Yield what does not fit; only the first is to be asked for."""
    named, names = entry.class_names, tuple(card["class_names"])
    yield from _of_labels(samples, card["num_classes"], named)
    if named and names != named:
        yield f"class_names are {_some(named)}, the files say {_some(names)}: leave out class_names, or rename one side"
    if samples.photographs is None:
        yield from _of_images(samples, card)


def _of_labels(samples: Samples, classes: int, named: tuple[str, ...]) -> Iterator[str]:
    parts, names = {"training": samples.train_labels, "test": samples.test_labels}, samples.class_names
    for part, labels in parts.items():
        if not len(labels):
            yield (
                f"there are no {part} images: give both parts images (of files without parts the last fifth of each "
                "class tests, so a class needs two images)"
            )
    if names and len(names) != classes:
        yield (
            f"the files have {len(names)} classes ({_some(names)}), num_classes is {classes}: write num_classes: "
            f"{len(names)}, or take out what is no class"
        )
    every = np.concatenate(list(parts.values()))
    lowest, highest = int(every.min()), int(every.max())
    if lowest:
        yield f"labels go from {lowest} to {highest}: number the classes from 0"
    # who names the classes may have images of some only, and so may a reader that finds names
    if highest >= classes or (highest + 1 < classes and not (named or names)):
        many = ", and as many class_names" if named else ""
        yield (
            f"labels go from 0 to {highest}, num_classes is {classes}: write num_classes: {highest + 1}{many}, or "
            "correct the labels"
        )


def _of_images(samples: Samples, card: Mapping[str, Any]) -> Iterator[str]:
    train, test = ("x".join(map(str, images.shape[1:])) for images in (samples.train_images, samples.test_images))
    if train != test:
        yield f"training images are {train}, test images {test}: make them of one size, with as many channels"
    for channel, (mean, std) in enumerate(zip(card["mean"], card["std"], strict=True)):
        if not std > 0:
            yield (
                f"channel {channel} of every training image is {BRIGHTEST * mean:.0f} of {BRIGHTEST} all over, so "
                "there is nothing to attack: give images that differ"
            )
    for part, images in (("training", samples.train_images), ("test", samples.test_images)):
        # the first that shows something ends the search
        if not any((image != image[:, :1, :1]).any() for image in images):
            yield f"every {part} image is of one color all over, so there is nothing to attack: give others"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
