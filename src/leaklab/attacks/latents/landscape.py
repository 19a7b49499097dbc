"""Matching loss as a function of the latents of a generator's images."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.attacks.matching.gradients import layered_gradients, trial_gradients
from leaklab.attacks.matching.inversion import Inversion
from leaklab.models.generators.base import Generator
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

GRADIENT_NUMBERS = 2**24
"""Numbers in the gradients that are held at once: a speed and memory knob only."""


class LatentMatching:
    """Matching loss of a trial as a function of its images' latents: the distance divided by the tensors' number.

    The unknowns of a trial are the latents of its images, one after the other; with one label per trial, the update is
    taken for that of one image.

    Args:
        generator: frozen, with the victim's dtype and device.
        network: the victim with its weights set; no parameter asks for a gradient.
        observed: observed gradients, one [T, ...] per parameter in the network's order.
        labels: [T], or [T, B] to take the update for the mean of B images' gradients.
        distance: see ``matching``.
        penalty: weight of ``prior_divergence``, summed over the images, when the object is called with derivatives,
            relative to the loss of a zero gradient.
        input_range: what the victim takes for black and for white.

    Raises:
        UserError: the generator is in training state, or labels and observed gradients do not fit or are not finite.
    """

    def __init__(
        self,
        generator: Generator,
        network: nn.Sequential,
        observed: list[Tensor],
        labels: Tensor,
        distance: Distance = squared_l2,
        penalty: float = 0.0,
        input_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        generator.require_frozen()
        _check(observed, labels, generator.num_classes)
        self.generator, self.network, self.observed = generator, network, observed
        self.distance, self.penalty, self.input_range = distance, penalty, input_range
        like = observed[0]
        labels = labels.view(len(labels), -1)
        self.batch = labels.shape[1]
        self.classes = F.one_hot(labels, generator.num_classes).to(like)
        self._gradients = trial_gradients(network)
        shape = (self.batch, *generator.image_shape)
        self._inversion = Inversion(network, observed, shape, generator.num_classes, distance, labels)
        self._unit = self._inversion.loss_of_nothing() / len(observed)
        self._together = max(1, GRADIENT_NUMBERS // sum(value[0].numel() for value in observed))

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial: B d."""
        return self.batch * self.generator.latent_size

    def batches(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return the images [S, B, C, H, W] of unknowns [S, B d] as the victim takes them, in the trials' classes."""
        low, high = self.input_range
        latents = points.reshape(-1, self.generator.latent_size)
        images = low + (high - low) * self.generator.generate(latents, self.classes[rows].flatten(0, 1))
        return images.view(len(points), self.batch, *images.shape[1:])

    def images(self, latents: Tensor, rows: Tensor) -> Tensor:
        """Return the images [S, C, H, W] of latents [S, d] where a trial has one; see ``batches``."""
        return self.batches(latents, rows).squeeze(1)

    def evaluate(self, latents: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [S] by first derivatives alone, and the latents (see ``latent.Evaluate``)."""
        parts = zip(torch.split(latents, self._together), torch.split(rows, self._together), strict=True)
        return torch.cat([self._losses(*part) for part in parts]), latents

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [S], penalty included, at ``points`` [S, B d], and their derivatives [S, B d]."""
        latents = points.detach().requires_grad_()
        images = self.batches(latents, rows).flatten(1)
        matching, outer = self._inversion(images.detach(), rows)
        divergence = prior_divergence(latents.view(-1, self.generator.latent_size)).view(-1, self.batch).sum(1)
        penalty = self.penalty * self._unit[rows] * divergence
        tensors = len(self.observed)
        total = (images * outer).sum() / tensors + penalty.sum()
        (derivative,) = torch.autograd.grad(total, latents)
        return matching / tensors + penalty.detach(), derivative

    def _losses(self, latents: Tensor, rows: Tensor) -> Tensor:
        with torch.no_grad():
            images = self.batches(latents, rows)
        # the products of layers are made by autograd; the mapped gradients need no graph around them
        with torch.set_grad_enabled(self._gradients is layered_gradients):
            gradients = self._gradients(self.network, images.requires_grad_(), self.classes[rows])
        with torch.no_grad():
            found = [gradient.detach() for gradient in gradients]
            return self.distance(found, [value[rows] for value in self.observed])[0] / len(self.observed)


def prior_divergence(latents: Tensor) -> Tensor:
    """Return KL(N(m, v) || N(0, 1)) with the mean m and the variance v over each latent [S, d]: [S]."""
    mean, variance = latents.mean(1), latents.var(1, correction=0)
    return (mean**2 + variance - 1 - variance.log()) / 2


def _check(observed: list[Tensor], labels: Tensor, num_classes: int) -> None:
    if not observed or any(len(value) != len(labels) for value in observed) or labels.dim() not in (1, 2):
        raise UserError(
            "ggl needs labels [T] or [T, B] and one gradient per parameter [T, ...] for each trial: capture again"
        )
    if not all(bool(value.isfinite().all()) for value in observed):
        raise UserError("the observed gradients are not finite: capture them again")
    if int(labels.min()) < 0 or int(labels.max()) >= num_classes:
        raise UserError(
            f"the generator knows classes 0..{num_classes - 1} only: choose the one of the victim's dataset"
        )


# Landscapes of the matching loss: along the line through two latents, and on a plane that contains it.

LINE = (-0.25, 1.25, 61)
"""Smallest and largest alpha of a line, and the number of its points."""

PLANE = (-0.5, 1.5, 31), (-1.0, 1.0, 31)
"""The same for alpha and beta of a plane."""


def steps(low: float, high: float, count: int) -> Tensor:
    """Return ``count`` equidistant numbers from ``low`` to ``high``, both included: [count] float64."""
    return torch.linspace(low, high, count, dtype=torch.float64)


def line(first: Tensor, second: Tensor, alphas: Tensor) -> Tensor:
    """Return the latents (1 - alpha) z1 + alpha z2: [A, d].

    Args:
        first: z1 [d], at alpha 0.
        second: z2 [d], at alpha 1.
        alphas: [A].

    Raises:
        UserError: the latents do not span a line.
    """
    _check_plane(first, second)
    weights = alphas.to(first)[:, None]
    return (1 - weights) * first + weights * second


def across(first: Tensor, second: Tensor, stream: Stream) -> Tensor:
    """Return z3 [d]: a random direction, as long as z2 - z1.

    Raises:
        UserError: as ``line``.
    """
    _check_plane(first, second)
    drawn = stream.normal(len(first)).to(first)
    factor: Tensor = torch.linalg.vector_norm(second - first) / torch.linalg.vector_norm(drawn)
    return drawn * factor


def plane(first: Tensor, second: Tensor, third: Tensor, alphas: Tensor, betas: Tensor) -> Tensor:
    """Return the latents z1 + alpha (z2 - z1) + beta z3: [A, B, d].

    Args:
        first: z1 [d].
        second: z2 [d].
        third: z3 [d], see ``across``.
        alphas: [A].
        betas: [B].

    Raises:
        UserError: as ``line``.
    """
    return line(first, second, alphas)[:, None] + betas.to(first)[None, :, None] * third


def losses_on(matching: LatentMatching, row: int, latents: Tensor) -> Tensor:
    """Return the matching loss of trial ``row`` at latents [..., d]: [...].

    With a profiled distance the curve does not depend on a factor on the observation: a perturbed learning rate (one
    local step) leaves it as it is without defense.
    """
    points = latents.flatten(0, -2)
    rows = torch.full((len(points),), row, device=points.device)
    return matching.evaluate(points, rows)[0].view(latents.shape[:-1])


def _check_plane(first: Tensor, second: Tensor) -> None:
    if first.dim() != 1 or first.shape != second.shape:
        raise UserError(f"a line joins two latents [d] of one size, not {list(first.shape)} and {list(second.shape)}")
    if not bool((first - second).isfinite().all()) or torch.equal(first, second):
        raise UserError("a line joins two finite latents that differ: choose other ends")
