"""Private images that a generator made: the control in which the image that an attack looks for can be found."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.models.generators.base import Generator
from leaklab.records.capture_spec import ImageChoice
from leaklab.records.streams import stream


@dataclass(frozen=True, eq=False)
class PlantedImages:
    """The latents [N, d] that were drawn from N(0, 1), their images [N, C, H, W] in [0, 1] and classes [N]."""

    latents: Tensor
    images: Tensor
    labels: Tensor


def planted_images(choice: ImageChoice, generator: Generator, dtype: torch.dtype) -> PlantedImages:
    """Return the images of a choice with ``planted``, one class after another.

    The pixels are not rounded, so that the drawn latents render them exactly.

    Args:
        choice: how many, from which seed.
        generator: frozen, on the CPU.
        dtype: of the latents and images.
    """
    latents = torch.stack(
        [
            stream(choice.seed, "planted image", number).normal(generator.latent_size).to(dtype)
            for number in range(choice.count)
        ]
    )
    labels = torch.arange(choice.count) % generator.num_classes
    classes = F.one_hot(labels, generator.num_classes).to(dtype)
    with torch.no_grad():
        images = deepcopy(generator).to(dtype).generate(latents, classes)
    return PlantedImages(latents, images, labels)
