"""A prepared dataset without its images, for those that need no torch: labels, writers and what its card says."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaklab.records.errors import UserError
from leaklab.records.files import read_arrays, read_forms, read_json

PARTS = ("train", "test")
GROUPS = "train_groups"
PHOTOGRAPHS = "photographs"
"""What the card has where images stay in their files, whose names and checksums stand in the place of images."""
IN_FILES = ("names", "sums")
KINDS = {"name": str, "num_classes": int, "shape": list, "mean": list, "std": list, "substitute": str | None}
RANK = 3
SUM_BYTES = 32
LARGEST = float(np.finfo(np.float32).max)
"""Of the numbers that normalise images: they are kept as float32."""
Forms = Mapping[str, tuple[str, list[int]]]


@dataclass(frozen=True, eq=False)
class Labels:
    """What ``Dataset`` holds besides images.

    Attributes:
        name: its key in ``config/datasets.yaml``.
        num_classes: labels are 0..num_classes-1; a subset need not contain them all.
        train_labels: int64, [N], as are ``test_labels``.
        mean: mean of the training images on the [0, 1] scale, for each channel.
        std: their standard deviation over all pixels, for each channel.
        substitute: what is missing compared with the published dataset, or None.
        train_groups: int64, [N], the same number for training images of one writer; None where that is not known.
    """

    name: str
    num_classes: int
    train_labels: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    mean: list[float]
    std: list[float]
    substitute: str | None = None
    train_groups: NDArray[np.int64] | None = None

    @classmethod
    def load(cls, path: Path) -> "Labels":
        """Read the card ``<dataset>.json`` and the labels from ``<dataset>.safetensors`` beside it.

        Images are not read, but their types and shapes are checked too.

        Raises:
            UserError: a file is missing or damaged, or the two do not fit together.
        """
        card, forms = read_json(path.with_suffix(".json")), read_forms(path)
        _refuse(path, _problems(card, forms))
        arrays = read_arrays(
            path, forms.keys() - {f"{part}_{kind}" for part in PARTS for kind in ("images", *IN_FILES)}
        )
        _refuse(path, _strays(card["num_classes"], arrays))
        return cls(
            name=card["name"],
            num_classes=card["num_classes"],
            train_labels=arrays["train_labels"],
            test_labels=arrays["test_labels"],
            mean=card["mean"],
            std=card["std"],
            substitute=card["substitute"],
            train_groups=arrays.get(GROUPS),
        )


def _refuse(path: Path, problems: Iterator[str]) -> None:
    problem = next(problems, None)
    if problem:
        raise UserError(f"{path} is no prepared dataset: {problem}; delete it and run snakemake again")


def _problems(card: Any, forms: Forms) -> Iterator[str]:
    """Yield how a card and the types and shapes of the tensors do not fit together.

    Only the first is to be asked for: what comes later takes for granted that there is none.
    """
    held = IN_FILES if isinstance(card, dict) and PHOTOGRAPHS in card else ("images",)
    wanted = {f"{part}_{kind}" for part in PARTS for kind in (*held, "labels")}
    if set(forms) - {GROUPS} != wanted:
        yield f"it holds {', '.join(sorted(forms)) or 'nothing'}, not {', '.join(sorted(wanted))}"
    yield from _problems_of_card(card)
    for part in PARTS:
        what, each = (f"{part}_images", card["shape"]) if held == ("images",) else (f"{part}_sums", [SUM_BYTES])
        kind, shape = forms[what]
        if kind != "U8" or shape[1:] != each:
            yield f"{what} are {kind} {shape}, the card says U8 [N, *{each}]"
        yield from _unlike(forms, f"{part}_labels", shape[:1])
    yield from _unlike(forms, GROUPS, forms["train_labels"][1])
    if not len(card["mean"]) == len(card["std"]) == card["shape"][0] or min(card["std"]) <= 0:
        yield "its card needs a mean and a positive std for each channel"


def _problems_of_card(card: Any) -> Iterator[str]:
    if not isinstance(card, dict):
        yield "its card is no JSON object"
    missing = KINDS.keys() - set(card)
    if missing:
        yield f"its card lacks {', '.join(sorted(missing))}"
    for name, kind in KINDS.items():
        if not isinstance(card[name], kind) or isinstance(card[name], bool):
            yield f"its card has a {name} of another type"
    if len(card["shape"]) != RANK:
        yield "its card needs a shape of channels, height and width"
    for name in ("mean", "std"):
        if not all(isinstance(value, int | float) and abs(value) <= LARGEST for value in card[name]):
            yield f"its card has a {name} that is no list of numbers"


def _unlike(forms: Forms, name: str, wanted: list[int]) -> Iterator[str]:
    kind, shape = forms.get(name, ("I64", wanted))
    if kind != "I64" or shape != wanted:
        yield f"{name} are {kind} {shape} for {wanted[0]} images"


def _strays(num_classes: int, arrays: Mapping[str, NDArray[np.int64]]) -> Iterator[str]:
    for part in PARTS:
        labels = arrays[f"{part}_labels"]
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
            yield f"{part}_labels are not all within 0..{num_classes - 1}"
