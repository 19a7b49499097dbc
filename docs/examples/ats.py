"""ATS: images are changed by a policy of transformations before the client trains on them.

Paper: Wei Gao, Shangwei Guo, Tianwei Zhang, Han Qiu, Yonggang Wen, Yang Liu, "Privacy-preserving Collaborative
Learning with Automatic Transformation Search", CVPR 2021.

Taken over: a policy is a sequence of image transformations; of several policies each image takes one at random.
Left out: the search that finds policies which hide much and cost little; those here are fixed, and chosen by hand.

Expect: the gradient is that of the changed image, exactly, so whoever reads gradients reads the changed image. How far
that is from the original is what a word is about: an attacker who knows the policies turns the image back, and what no
one can turn back is what was shifted or turned out of it, or cut off at black and white.

The hook ``samples`` is given the batch of a step and returns the one that is trained on.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab import ClientContext, Defense

Policy = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ATS(Defense):
    """Change each image by one of the ``policies``, which name transformations and how strong they are."""

    policies: tuple[Policy, ...] = (
        (("shift", 0.15), ("rotate", 25.0), ("contrast", 1.5)),
        (("invert", 1.0), ("rotate", -20.0), ("brightness", 0.7)),
    )

    def samples(self, images: Tensor, labels: Tensor, context: ClientContext) -> tuple[Tensor, Tensor]:
        """Return changed images [B, C, H, W] in [0, 1], and the labels as they are."""
        chosen = context.stream("ats").integers(0, len(self.policies), len(images)).tolist()
        changed = [changed_by(self.policies[k], image[None]) for k, image in zip(chosen, images, strict=True)]
        return torch.cat(changed), labels


def changed_by(policy: Policy, images: Tensor) -> Tensor:
    """Return images after all transformations of a policy, one after the other."""
    for name, strength in policy:
        images = TRANSFORMATIONS[name](images, strength).clamp(0, 1)
    return images


def moved(images: Tensor, angle: float, right: float) -> Tensor:
    """Return images turned by degrees and moved to the right by a share of their width; black comes in."""
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    matrix = torch.tensor([[cosine, -sine, -2 * right], [sine, cosine, 0.0]]).to(images).expand(len(images), 2, 3)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


TRANSFORMATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "shift": lambda images, share: moved(images, 0.0, share),
    "rotate": lambda images, angle: moved(images, angle, 0.0),
    "brightness": lambda images, factor: factor * images,
    "contrast": lambda images, factor: 0.5 + factor * (images - 0.5),
    "invert": lambda images, share: share * (1 - images) + (1 - share) * images,
}
