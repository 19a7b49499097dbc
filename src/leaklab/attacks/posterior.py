"""Posterior of the latents of all images of an update: how well they explain it, and how likely they are at all.

With a generator G whose latents z are N(0, 1), and images x = G(z, y)::

    -log p(z | o) = weight * D(g(x), o) + 1/2 |z|^2 + box * sum of (x - clip(x, 0, 1))^2

up to a constant: D is a matching distance, ``weight`` makes a log-likelihood of it, and the box says that pixels have
a range, also where a generator's images leave it. Other attacks have one weight on their prior, in units of the
distance; here the prior is a density and needs none, so the weight is on the distance.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.delta_matching import DeltaMatching
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.scene import Scene
from leaklab.attacks.simulation import batch_order, steps_of
from leaklab.attacks.update_inversion import UpdateInversion


@dataclass(frozen=True)
class Posterior:
    """Negative logarithm of the posterior of T trials; an ``attacks.search.Objective``.

    The unknowns of a trial are the latents of its B images, one after the other.

    Attributes:
        scene: whose generator makes images of latents.
        inversion: the distance as a function of the images, whose labels are fixed, and of the other unknowns.
        classes: [T, B, K] one-hot labels.
        weight: [T] on the distance.
        box: weight of the squares by which pixels leave [0, 1].
    """

    scene: Scene
    inversion: Inversion | DeltaMatching
    classes: Tensor
    weight: Tensor
    box: float

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.classes.shape[1] * self.scene.generator.latent_size + self.others

    @property
    def others(self) -> int:
        """Number of unknowns that are no latents; here there are none."""
        return 0

    def latents(self, points: Tensor) -> Tensor:
        """Return the latents [S, B, d] among the unknowns [S, n]."""
        return points[:, : self.unknowns - self.others].reshape(len(points), -1, self.scene.generator.latent_size)

    def other(self, points: Tensor) -> Tensor:
        """Return the unknowns [S, m] that are no latents."""
        return points[:, self.unknowns - self.others :]

    def weighted(self, weight: Tensor) -> "Posterior":
        """Return the posterior with another weight [T] on the distance."""
        return replace(self, weight=weight)

    def images(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the images [S, B, C, H, W] on the [0, 1] scale of the unknowns [S, n] of trials ``rows`` [S]."""
        latents = self.latents(points).flatten(0, 1)
        flat = self.scene.generator.generate(latents, self.classes[rows].flatten(0, 1))
        return flat.view(len(points), -1, *flat.shape[1:])

    def beliefs(self, points: Tensor, images: Tensor) -> Tensor:
        """Return the negative log-density of the prior [S] at ``points`` [S, n], up to a constant."""
        return (self.latents(points) ** 2).flatten(1).sum(1) / 2 + self.box * outside(images)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values [S] at ``points`` [S, n] and their derivatives [S, n]."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            images = self.images(points, rows)
            inputs = torch.cat([self.scene.as_inputs(images).flatten(1), self.other(points)], 1)
            beliefs = self.beliefs(points, images)
        distance, slope = self.inversion(inputs.detach(), rows)
        weight = self.weight[rows]
        total = (inputs * (weight[:, None] * slope)).sum() + beliefs.sum()
        (derivative,) = torch.autograd.grad(total, points)
        return weight * distance + beliefs.detach(), derivative


def posterior_of(scene: Scene, labels: Tensor, box: float) -> Posterior:
    """Return the posterior of a scene's trials for labels [T, B]; the distance weighs 1.

    Where each local step had a batch of its own the labels are those of all steps, and the steps are simulated at the
    rates that the server prescribed; the mean of their gradients is compared.

    Raises:
        UserError: labels that neither fill one batch nor one for each step, or rates that are withheld.
    """
    like, classes = scene.observed[0], scene.generator.num_classes
    inversion = _inversion(scene, labels, (labels.shape[1], *scene.generator.image_shape))
    return Posterior(scene, inversion, F.one_hot(labels, classes).to(like), like.new_ones(len(labels)), box)


def _inversion(scene: Scene, labels: Tensor, shape: tuple[int, ...]) -> Inversion:
    common = (scene.network, scene.observed, shape, scene.generator.num_classes, scene.distance, labels)
    order = own_batches(scene, labels)
    if order is None:
        return Inversion(*common)
    rates = torch.tensor(scene.knowledge.assumed_rates(scene.attack), dtype=torch.float64)
    return UpdateInversion(*common, rates, steps_of(scene.knowledge, order, scene.attack))


def own_batches(scene: Scene, labels: Tensor) -> Tensor | None:
    """Return which samples each step uses, [E, B]; None for one batch, which all steps repeat.

    Args:
        scene: whose facts say how many samples a step has.
        labels: [T, B] of one batch, or of one for each step, in their order.

    Raises:
        UserError: they are neither.
    """
    samples, batch = labels.shape[1], int(scene.knowledge.require("batch_size", scene.attack))
    if samples == batch:
        return None
    return batch_order(samples, batch, int(scene.knowledge.require("local_steps", scene.attack)))


def outside(images: Tensor) -> Tensor:
    """Return the sum of the squares by which the pixels [S, ...] leave [0, 1]: [S]."""
    return ((images - images.clamp(0, 1)) ** 2).flatten(1).sum(1)
