"""ROG without its learned part: match the direction of the gradient with an image of a quarter of the resolution.

Source: "Gradient Obfuscation Gives a False Sense of Security in Federated Learning" (ROG), section on its image
projection: the unknown is a small image that is enlarged, which a noised or pruned gradient determines better than all
pixels. ROG then sharpens by trained networks (a generator, a denoiser, an upsampler), whose weights are not here: hence
``lite``. Rate, start and cosine decay are those of its published code; the distance is that of HyperFL's table 5.
"""

from dataclasses import dataclass
from math import cos, pi
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.base import Attack, Case, Reconstruction, require_gradient, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.matching.cosine import CosineInversion
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.search.priors import Box
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.attacks.starts import numbered
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Rate
from leaklab.records.errors import UserError

LAST_RATE = 0.1
"""Share of the rate that is left after the last iteration."""


@dataclass(frozen=True)
class RogLite:
    """Minimise 1 - cos(g', o) over small images by Adam; labels are known or read off.

    Attributes:
        factor: sides of an image over those of the small one.
        interpolation: how small images are enlarged.
        label_rule: as in ``ig``.
        rate: of Adam, in units of a pixel; falls along a cosine to a tenth of it.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"), facts_when={"label_rule": KNOWN_LABELS}
    )

    factor: Count = 4
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"
    label_rule: str = "known"
    rate: Rate = 0.05

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``. Starts are uniform on the range of inputs.

        Raises:
            UserError: facts are withheld, images too small for the factor, or an observation that is not a gradient.
        """
        require_gradient(case.observation, "rog-lite")
        observation, knowledge, budget = case.observation, case.knowledge, case.budget
        labels = fixed_labels("rog-lite", self.label_rule, observation, knowledge, case.distance)
        enlarged = Enlarged(_inversion(case, labels), self.factor, self.interpolation)
        box = Box(*knowledge.require("input_range", "rog-lite"))

        def start_of(row: int, number: int) -> Tensor:
            drawn = case.streams("start", observation.trials[row], number).uniform(enlarged.unknowns)
            return (box.lower + (box.upper - box.lower) * drawn).to(observation.like)

        settings = CosineDecay(budget.iterations, budget.restarts, self.rate, box=box, signed=False)
        found = signed_adam(enlarged, start_of, len(observation.trials), settings)
        candidates = enlarged.images(found.points.flatten(0, 1)).view(
            *found.points.shape[:2], *enlarged.inversion.shape
        )
        return Reconstruction.of_starts(candidates, found.losses, labels, numbered(found.records, observation.trials))


def _inversion(case: Case, labels: Tensor) -> Inversion:
    network, observed = victim(case.observation, case.knowledge, "rog-lite"), list(case.observation.update.values())
    shape, classes = case.shape("rog-lite"), case.classes("rog-lite")
    if case.distance is None:
        return CosineInversion(network, observed, shape, classes, labels)
    return Inversion(network, observed, shape, classes, case.distance, labels)


class Enlarged:
    """A matching loss of images as a function of small ones, [S, B * C * h * w]; an ``Objective``.

    Args:
        inversion: the loss of images.
        factor: sides of an image over those of a small one, rounded up.
        interpolation: ``bilinear`` or ``bicubic``.

    Raises:
        UserError: a small image would have a side of one pixel.
    """

    def __init__(self, inversion: Inversion, factor: int, interpolation: str) -> None:
        self.inversion, self.interpolation = inversion, interpolation
        batch, channels, *self.size = inversion.shape
        small = [-(-side // factor) for side in self.size]
        if min(small) < 2:
            raise UserError(
                f"attack 'rog-lite': images of {self.size[0]}x{self.size[1]} over {factor} are single pixels: lower "
                "factor"
            )
        self.shape = (batch, channels, *small)

    @property
    def unknowns(self) -> int:
        """Pixels of a trial's small images."""
        return torch.Size(self.shape).numel()

    def images(self, points: Tensor) -> Tensor:
        """Return the enlarged images [S, B, C, H, W] of small ones."""
        small = points.view(-1, *self.shape[1:])
        large = F.interpolate(small, size=tuple(self.size), mode=self.interpolation, align_corners=False)
        return large.view(len(points), *self.inversion.shape)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss [S] and its derivative at the small images."""
        points = points.detach().requires_grad_()
        images = self.images(points).flatten(1)
        value, slope = self.inversion(images.detach(), rows)
        (derivative,) = torch.autograd.grad(images, points, slope)
        return value, derivative


@dataclass(frozen=True)
class CosineDecay(SignedAdamSettings):
    """Adam whose rate falls along a cosine to ``LAST_RATE`` of it."""

    def rate_at(self, step: int) -> float:
        """Return the rate of step 0, 1, ..., iterations - 1."""
        return self.rate * (LAST_RATE + (1 - LAST_RATE) * (1 + cos(pi * step / self.iterations)) / 2)


PLUGIN: type[Attack] = RogLite
