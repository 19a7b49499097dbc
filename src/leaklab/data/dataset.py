"""A prepared dataset: images and labels in one safetensors file, and a card that says what they are."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from leaklab.data.labels import Labels
from leaklab.records.files import read_tensors

BRIGHTEST = 255


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels for classification.

    Attributes:
        name: its key in ``config/datasets.yaml``.
        num_classes: labels are 0..num_classes-1; a subset need not contain them all.
        train_images: uint8, [N, C, H, W], as are ``test_images``.
        train_labels: int64, [N], as are ``test_labels``.
        mean: float32, [C], mean of the training images on the [0, 1] scale.
        std: float32, [C], their standard deviation over all pixels.
        substitute: what is missing compared with the published dataset, or None.
        train_groups: int64, [N], the same number for training images of one writer; None where that is not known.
    """

    name: str
    num_classes: int
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    mean: Tensor
    std: Tensor
    substitute: str | None = None
    train_groups: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """[C, H, W] of an image."""
        channels, height, width = self.train_images.shape[1:]
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
            **read_tensors(path),
        )

    def part(self, split: str) -> tuple[Tensor, Tensor]:
        """Return images (uint8) and labels of the ``train`` or the ``test`` part."""
        return {"train": (self.train_images, self.train_labels), "test": (self.test_images, self.test_labels)}[split]

    def normalised(self, images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return (x / 255 - mean) / std per channel.

        Args:
            images: uint8, [..., C, H, W], on any device.
            dtype: floating type of the result.
        """
        mean, std = (value.to(images.device, dtype)[:, None, None] for value in (self.mean, self.std))
        return (unit_range(images, dtype) - mean) / std


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
