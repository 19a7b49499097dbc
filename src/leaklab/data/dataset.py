"""A prepared dataset: images and labels in one safetensors file, and a card that says what they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.data.fetch import mirror_folder
from leaklab.data.labels import PARTS, PHOTOGRAPHS, Labels
from leaklab.data.photographs import Images, Photographs, in_memory
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors

BRIGHTEST = 255


def first_of_class(labels: Tensor, count: int) -> Tensor:
    """Return which of labels [N] are among the first ``count`` of their value: bool [N]."""
    # its place among those of its label, counted from 1
    places = F.one_hot(labels).cumsum(0).gather(1, labels[:, None])[:, 0]
    return places <= count


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels for classification.

    Attributes:
        name: its key in ``config/datasets.yaml``.
        num_classes: labels are 0..num_classes-1; a subset need not contain them all.
        train_images: uint8, [N, C, H, W], or photographs in their files; as are ``test_images``.
        train_labels: int64, [N], as are ``test_labels``.
        mean: float32, [C], mean of the training images on the [0, 1] scale.
        std: float32, [C], their standard deviation over all pixels.
        substitute: what is missing compared with the published dataset, or None.
        train_groups: int64, [N], the same number for training images of one writer; None where that is not known.
    """

    name: str
    num_classes: int
    train_images: Images
    train_labels: Tensor
    test_images: Images
    test_labels: Tensor
    mean: Tensor
    std: Tensor
    substitute: str | None = None
    train_groups: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] of an image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width

    @classmethod
    def load(cls, path: Path) -> "Dataset":
        """Read ``<dataset>.safetensors`` and the card ``<dataset>.json`` beside it.

        Raises:
            UserError: a file is missing or damaged, or the two do not fit together.
        """
        labels = Labels.load(path)
        return cls(
            name=labels.name,
            num_classes=labels.num_classes,
            mean=torch.tensor(labels.mean),
            std=torch.tensor(labels.std),
            substitute=labels.substitute,
            **_images(path),
        )

    def part(self, split: str) -> tuple[Tensor, Tensor]:
        """Return images (uint8) and labels of the ``train`` or the ``test`` part.

        Raises:
            UserError: its images stay in their files.
        """
        of_split = {"train": (self.train_images, self.train_labels), "test": (self.test_images, self.test_labels)}
        images, labels = of_split[split]
        return in_memory(images), labels

    @overload
    def normalised(self, images: Tensor, dtype: torch.dtype = ...) -> Tensor: ...

    @overload
    def normalised(self, images: Images, dtype: torch.dtype = ...) -> Images: ...

    def normalised(self, images: Images, dtype: torch.dtype = torch.float32) -> Images:
        """Return (x / 255 - mean) / std per channel.

        Args:
            images: uint8, [..., C, H, W], on any device; or photographs in their files, which stay there.
            dtype: floating type of the result.
        """
        if isinstance(images, Photographs):
            return images.normalised(self.mean, self.std, dtype)
        mean, std = (value.to(images.device, dtype)[:, None, None] for value in (self.mean, self.std))
        return (unit_range(images, dtype) - mean) / std


def _images(path: Path) -> dict[str, Any]:
    """Return the tensors of a prepared data set, with photographs in the place of images that stay in their files."""
    made, tensors = read_json(path.with_suffix(".json")).get(PHOTOGRAPHS), read_tensors(path)
    if made is None:
        return dict(tensors)
    mirror = mirror_folder()
    if mirror is None:
        raise UserError(
            f"the photographs of {path.stem} stay in their files: set LEAKLAB_MIRROR to the mirror with them"
        )
    kept = {name: value for name, value in tensors.items() if not name.endswith(("_names", "_sums"))}
    found = {f"{part}_images": Photographs.of(mirror / made["folders"][part], tensors, part, made) for part in PARTS}
    return {**kept, **found}


def unit_range(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return uint8 images as floats in [0, 1]."""
    return images.to(dtype) / BRIGHTEST


def channel_moments(images: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and (population) standard deviation per channel on the [0, 1] scale.

    Computed in integers from the histogram of the 256 levels, hence exact and without a copy of the images.

    Args:
        images: uint8, [N, C, H, W].
    """
    levels = torch.arange(BRIGHTEST + 1, dtype=torch.float64) / BRIGHTEST
    means, stds = [], []
    for channel in images.unbind(1):
        counts = torch.bincount(channel.reshape(-1), minlength=BRIGHTEST + 1)
        share = counts.double() / counts.sum()
        mean = (share * levels).sum()
        means.append(float(mean))
        stds.append(float((share * (levels - mean) ** 2).sum().sqrt()))
    return means, stds
