"""Generative gradient leakage (GGL): gradient matching among the images that a class-conditional generator can make.

Source: "Auditing Privacy Defenses in Federated Learning via Generative Gradient Leakage"; settings as the LRP paper
states them (CMA-ES, population 50).
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Reconstruction, Streams, victim
from leaklab.attacks.fixed_labels import fixed_labels
from leaklab.attacks.gradients import layered_gradients, trial_gradients
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.latent_search import AdamSettings, CmaSettings, adam_search, cma_search
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.attacks.search import SearchResult
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

OPTIMIZERS = ("cma", "adam")
GRADIENT_NUMBERS = 2**26
"""Numbers in the gradients that are held at once: a speed and memory knob only."""


@dataclass(frozen=True)
class GglSettings:
    """How the latent is searched.

    Attributes:
        optimizer: ``cma`` (the paper's) or ``adam``, which needs second derivatives of the victim.
        population: candidates per generation (cma).
        sigma: standard deviation of the first generation (cma).
        squash: keep latents within (-1, 1) by tanh, as published (cma); where tanh is flat a search can get stuck, so
            an attacker who wants the most should also try without.
        rate: Adam's rate (adam).
        penalty: weight of the latent's distance from the prior in the loss (adam), see ``prior_divergence``.
    """

    optimizer: str = "cma"
    population: int = 50
    sigma: float = 1.0
    squash: bool = True
    rate: float = 0.1
    penalty: float = 0.1

    def __post_init__(self) -> None:
        """Refuse an unknown optimizer and a negative penalty."""
        if self.optimizer not in OPTIMIZERS:
            raise UserError(f"ggl has no optimizer '{self.optimizer}': choose from {', '.join(OPTIMIZERS)}")
        if not self.penalty >= 0:
            raise UserError(f"ggl's penalty must not be negative, and is {self.penalty}")


@dataclass(frozen=True)
class Generated:
    """What the search found: the reconstruction, and the latents [T, d] of its images."""

    reconstruction: Reconstruction
    latents: Tensor


class LatentMatching:
    """Matching loss of one image per trial as a function of its latent: the distance divided by the tensors' number.

    Args:
        generator: frozen, with the victim's dtype and device.
        network: the victim with its weights set; no parameter asks for a gradient.
        observed: observed gradients, one [T, ...] per parameter in the network's order.
        labels: [T].
        distance: see ``matching``.
        penalty: weight of ``prior_divergence`` when the object is called with derivatives.

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
    ) -> None:
        generator.require_frozen()
        _check(observed, labels, generator.num_classes)
        self.generator, self.network, self.observed = generator, network, observed
        self.distance, self.penalty = distance, penalty
        like = observed[0]
        self.classes = F.one_hot(labels, generator.num_classes).to(like)
        self._gradients = trial_gradients(network)
        shape = (1, *generator.image_shape)
        self._inversion = Inversion(network, observed, shape, generator.num_classes, distance, labels[:, None])
        self._together = max(1, GRADIENT_NUMBERS // sum(value[0].numel() for value in observed))

    def images(self, latents: Tensor, rows: Tensor) -> Tensor:
        """Return the images [S, C, H, W] of latents [S, d] in the classes of the trials ``rows`` [S]."""
        return self.generator.generate(latents, self.classes[rows])

    def evaluate(self, latents: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [S] by first derivatives alone, and the latents (see ``latent_search.Evaluate``)."""
        parts = zip(torch.split(latents, self._together), torch.split(rows, self._together), strict=True)
        return torch.cat([self._losses(*part) for part in parts]), latents

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the losses [S], penalty included, at the latents ``points`` [S, d], and their derivatives [S, d]."""
        latents = points.detach().requires_grad_()
        images = self.images(latents, rows).flatten(1)
        matching, outer = self._inversion(images.detach(), rows)
        penalty = self.penalty * prior_divergence(latents)
        tensors = len(self.observed)
        total = (images * outer).sum() / tensors + penalty.sum()
        (derivative,) = torch.autograd.grad(total, latents)
        return matching / tensors + penalty.detach(), derivative

    def _losses(self, latents: Tensor, rows: Tensor) -> Tensor:
        with torch.no_grad():
            images = self.images(latents, rows)[:, None]
        # the products of layers are made by autograd; the mapped gradients need no graph around them
        with torch.set_grad_enabled(self._gradients is layered_gradients):
            gradients = self._gradients(self.network, images.requires_grad_(), self.classes[rows][:, None])
        with torch.no_grad():
            found = [gradient.detach() for gradient in gradients]
            return self.distance(found, [value[rows] for value in self.observed])[0] / len(self.observed)


def prior_divergence(latents: Tensor) -> Tensor:
    """Return KL(N(m, v) || N(0, 1)) with the mean m and the variance v over each latent [S, d]: [S]."""
    mean, variance = latents.mean(1), latents.var(1, correction=0)
    return (mean**2 + variance - 1 - variance.log()) / 2


def ggl_search(
    matching: LatentMatching,
    trials: tuple[int, ...],
    budget: Budget,
    streams: Streams,
    settings: GglSettings,
) -> SearchResult:
    """Search the latents of T trials; the points are latents, the losses those of ``matching``.

    Args:
        matching: T trials.
        trials: number of each trial within the capture, which names its draws.
        budget: generations (cma) or steps (adam) per start, and starts; all starts run.
        streams: see ``Attack.reconstruct``.
        settings: see ``GglSettings``.
    """
    like, size = matching.observed[0], matching.generator.latent_size

    def start_of(row: int, number: int) -> Tensor:
        return streams("start", trials[row], number).normal(size).to(like)

    def stream_of(row: int, number: int) -> Stream:
        return streams("candidates", trials[row], number)

    if settings.optimizer == "adam":
        adam = AdamSettings(budget.iterations, budget.restarts, settings.rate)
        return adam_search(matching, start_of, len(trials), adam)
    cma = CmaSettings(budget.iterations, budget.restarts, settings.population, settings.sigma, settings.squash)
    return cma_search(matching.evaluate, start_of, stream_of, len(trials), cma)


def reconstruct_with(
    generator: Generator,
    observation: Observation,
    knowledge: Knowledge,
    budget: Budget,
    streams: Streams,
    distance: Distance = squared_l2,
    settings: GglSettings | None = None,
) -> Generated:
    """Reconstruct one image per trial; its label is taken as known where it is granted, else inferred (iDLG's rule).

    Args:
        generator: frozen; makes the victim's images and classes.
        observation: see ``Attack.reconstruct``, as the arguments that follow.
        knowledge: what the threat model grants.
        budget: see ``ggl_search``.
        streams: see ``ggl_search``.
        distance: matching loss; a defense-aware transform may replace the attack's own.
        settings: see ``GglSettings``.

    Raises:
        UserError: facts are withheld, the observation is no gradient of one sample, or the generator does not fit.
    """
    if observation.kind != "gradient":
        raise UserError("attack 'ggl' matches gradients: choose a transform that turns the delta into one")
    if knowledge.require("batch_size", "ggl") != 1:
        raise UserError("attack 'ggl' reconstructs one sample per update: use batch_size 1, or another attack")
    settings = settings or GglSettings()
    network = victim(observation, knowledge, "ggl")
    generator.require(tuple(knowledge.require("input_shape", "ggl")), int(knowledge.require("num_classes", "ggl")))
    observed = list(observation.update.values())
    rule = "known" if knowledge.knows("labels") else "bias"
    labels = fixed_labels("ggl", rule, observation, knowledge)[:, 0]
    matching = LatentMatching(
        deepcopy(generator).to(observed[0]), network, observed, labels, distance, settings.penalty
    )
    found = ggl_search(matching, observation.trials, budget, streams, settings)
    return _generated(matching, found, labels, observation.trials)


def _generated(matching: LatentMatching, found: SearchResult, labels: Tensor, trials: tuple[int, ...]) -> Generated:
    rows = torch.arange(len(trials), device=found.points.device)
    latents = found.points[rows, found.chosen()]
    with torch.no_grad():
        images = matching.images(latents, rows)
        candidates = [matching.images(points, rows) for points in found.points.unbind(1)]
    reconstruction = Reconstruction(
        images=images[:, None],
        labels=labels[:, None],
        candidates=torch.stack(candidates, 1)[:, :, None],
        candidate_losses=found.losses,
        starts=tuple(replace(record, trial=trials[record.trial]) for record in found.records),
        scale=torch.ones(len(trials), dtype=torch.float64),
    )
    return Generated(reconstruction, latents)


def _check(observed: list[Tensor], labels: Tensor, num_classes: int) -> None:
    if not observed or any(len(value) != len(labels) for value in observed) or labels.dim() != 1:
        raise UserError("ggl needs one label [T] and one gradient per parameter [T, ...] for each trial: capture again")
    if not all(bool(value.isfinite().all()) for value in observed):
        raise UserError("the observed gradients are not finite: capture them again")
    if int(labels.min()) < 0 or int(labels.max()) >= num_classes:
        raise UserError(
            f"the generator knows classes 0..{num_classes - 1} only: choose the one of the victim's dataset"
        )
