"""Whether an update says which image it is of, among public ones: by all of it.

Of each candidate the gradient is computed with its label, and the private image is named where its gradient has the
largest cosine with the update. For one gradient with an unknown factor and equal noise on all entries that is the
likeliest candidate. Where a client also clips, prunes or masks, candidates are not treated alike here, and who does
so may name more.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.gradients import trial_gradients
from leaklab.attacks.scene import Scene
from leaklab.metrics.named_image import NamedImage

TOGETHER = 50
"""Gradients that are computed at once: a memory knob only."""


@dataclass(frozen=True)
class NamedByGradient(NamedImage):
    """1 where the private image's gradient is the likeliest; see ``NamedImage``."""

    name: ClassVar[str] = "named_by_gradient"
    by: ClassVar[str] = "the cosine of the whole update and each candidate's gradient"

    def distances(
        self, scene: Scene, private: tuple[Tensor, Tensor], public: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return one minus the cosine, see ``NamedImage.distances``."""
        seen = F.normalize(torch.cat([value.flatten(1) for value in scene.observed], 1))
        own = torch.cat(list(_directions(scene, *private)))
        others = torch.cat([seen @ some.T for some in _directions(scene, *public)], 1)
        return 1 - (seen * own).sum(1), 1 - others.amax(1)


def _directions(scene: Scene, images: Tensor, labels: Tensor) -> list[Tensor]:
    """Return the gradients of images [N, C, H, W], of length 1, some [*, n] at a time."""
    gradients, classes = trial_gradients(scene.network), scene.generator.num_classes
    found = []
    for some, of in zip(torch.split(images, TOGETHER), torch.split(labels, TOGETHER), strict=True):
        targets = F.one_hot(of, classes)[:, None].to(some)
        inputs = scene.as_inputs(some)[:, None].detach().requires_grad_()
        parts = gradients(scene.network, inputs, targets)
        found.append(F.normalize(torch.cat([part.detach().flatten(1) for part in parts], 1)))
    return found


PLUGIN = NamedByGradient
