"""Clients with images of noise, for checks of what training does, whatever it learns."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from leaklab.data.dataset import BRIGHTEST, Dataset
from leaklab.models.base import Shape
from leaklab.records.streams import stream


def noise_dataset(seed: int, shape: Shape, classes: int, samples: int, tests: int) -> Dataset:
    """Return uniform noise with labels that go round.

    Args:
        seed: of the draws.
        shape: (C, H, W) of an image.
        classes: of the labels.
        samples: images of the training part.
        tests: images of the test part.
    """
    parts: dict[str, Tensor] = {}
    for part, count in (("train", samples), ("test", tests)):
        drawn = stream(seed, "noise", part).uniform(count * prod(shape)).view(count, *shape)
        parts[f"{part}_images"] = (drawn * BRIGHTEST).to(torch.uint8)
        parts[f"{part}_labels"] = torch.arange(count) % classes
    level = torch.full((shape[0],), 0.5)
    return Dataset(
        name="noise",
        num_classes=classes,
        mean=level,
        std=level / 2,
        train_images=parts["train_images"],
        train_labels=parts["train_labels"],
        test_images=parts["test_images"],
        test_labels=parts["test_labels"],
    )


def dealt_in_order(sizes: Sequence[int]) -> list[Tensor]:
    """Return the positions of each client's samples, one client after the other."""
    return list(torch.split(torch.arange(sum(sizes)), list(sizes)))
