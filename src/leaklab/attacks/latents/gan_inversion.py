"""GAN inversion: the latent whose image comes closest to a given one, with the class fixed.

CMA-ES looks for good points to start from, and each of its candidates is judged by what a few steps of Adam make of
it; the best is then refined. The paper's figures 4, 11 and 12 need that latent as the far end of their lines.

Source: "Transforming and Projecting Images into Class-conditional Generative Networks" (pix2latent).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.base import Streams
from leaklab.attacks.search.latent import AdamSettings, CmaSettings, adam_search, cma_search
from leaklab.models.generators.base import Generator
from leaklab.records.errors import UserError

Perceptual = Callable[[Tensor, Tensor], Tensor]
"""Images and targets, both [N, C, H, W] in [0, 1] -> distances [N] that can be differentiated, e.g. LPIPS."""


@dataclass(frozen=True)
class ProjectionSettings:
    """How an image is projected.

    Attributes:
        generations: generations of CMA-ES.
        population: candidates per generation.
        sigma: standard deviation of the first generation around the start, which is drawn from the prior.
        inner_steps: steps of Adam by which each candidate is judged.
        final_steps: steps of Adam on the best candidate.
        rate: Adam's rate.
        perceptual_weight: weight of the perceptual distance beside the mean squared pixel difference.
    """

    generations: int = 30
    population: int = 10
    sigma: float = 1.0
    inner_steps: int = 20
    final_steps: int = 300
    rate: float = 0.05
    perceptual_weight: float = 1.0


@dataclass(frozen=True)
class Projected:
    """The latents [T, d] found, their images [T, C, H, W] and their losses [T]."""

    latents: Tensor
    images: Tensor
    losses: Tensor


class Projection:
    """Distance of generated images from given ones; an ``attacks.search.Objective`` of latents."""

    def __init__(
        self, generator: Generator, targets: Tensor, labels: Tensor, perceptual: Perceptual | None, weight: float
    ) -> None:
        """Remember what is compared; see ``project``."""
        self.generator, self.targets, self.perceptual, self.weight = generator, targets, perceptual, weight
        self.classes = F.one_hot(labels, generator.num_classes).to(targets)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [S] at latents ``points`` [S, d] for the images ``rows`` [S], and their derivatives."""
        latents = points.detach().requires_grad_()
        images = self.generator.generate(latents, self.classes[rows])
        targets = self.targets[rows]
        losses = ((images - targets) ** 2).flatten(1).mean(1)
        if self.perceptual is not None:
            losses = losses + self.weight * self.perceptual(images, targets)
        (derivative,) = torch.autograd.grad(losses.sum(), latents)
        return losses.detach(), derivative


def project(
    generator: Generator,
    images: Tensor,
    labels: Tensor,
    streams: Streams,
    settings: ProjectionSettings | None = None,
    perceptual: Perceptual | None = None,
) -> Projected:
    """Return the latents whose images come closest to ``images``.

    Args:
        generator: frozen, with the images' dtype and device.
        images: [T, C, H, W] in [0, 1].
        labels: [T], the class in which each image is sought.
        streams: ``streams("start", t)`` and ``streams("candidates", t)`` draw for image t.
        settings: see ``ProjectionSettings``.
        perceptual: see ``Perceptual``; None compares pixels only.

    Raises:
        UserError: the generator does not make such images, or images or labels are unusable.
    """
    settings = settings or ProjectionSettings()
    _check(generator, images, labels)
    projection = Projection(generator, images, labels, perceptual, settings.perceptual_weight)

    def refined(points: Tensor, rows: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        adam = AdamSettings(steps, rate=settings.rate)
        found = adam_search(
            lambda latents, of: projection(latents, rows[of]), lambda row, _: points[row], len(points), adam
        )
        return found.losses[:, 0], found.points[:, 0]

    found = cma_search(
        lambda points, rows: refined(points, rows, settings.inner_steps),
        lambda row, _: streams("start", row).normal(generator.latent_size).to(images),
        lambda row, _: streams("candidates", row),
        len(images),
        CmaSettings(settings.generations, 1, settings.population, settings.sigma, squash=False),
    )
    rows = torch.arange(len(images), device=images.device)
    losses, latents = refined(found.points[:, 0], rows, settings.final_steps)
    with torch.no_grad():
        return Projected(latents, generator.generate(latents, projection.classes), losses)


def _check(generator: Generator, images: Tensor, labels: Tensor) -> None:
    generator.require_frozen()
    if images.dim() != 4 or tuple(images.shape[1:]) != generator.image_shape or labels.shape != images.shape[:1]:
        shape = ["T", *generator.image_shape]
        raise UserError(f"the generator inverts images {shape} with labels [T], not {list(images.shape)}")
    if not (float(images.min()) >= 0 and float(images.max()) <= 1):
        raise UserError("images to invert must be finite and within [0, 1]: undo their normalisation")
    if int(labels.min()) < 0 or int(labels.max()) >= generator.num_classes:
        raise UserError(f"the generator knows classes 0..{generator.num_classes - 1} only: choose another one")
