"""The error that an attacker with a Gaussian prior can expect of an update under noise: the linear posterior's.

Let images of a class be N(m, L L'), and let the update be g(x) + N(0, sigma^2) in every entry, with g the gradient,
clipped where the client clips. Linearised at the true image, with J the derivative of g there, the posterior of the
image is a Gaussian with the covariance L (1 + L'J'J L / sigma^2)^-1 L'. Its mean, the best guess there is, then has on
average over noise and images of the class the squared error

    tr L (1 + L'J'J L / sigma^2)^-1 L' / pixels        of each pixel.

It is no bound on all attackers: a better prior than a Gaussian may go below, and so may a single draw. It is what more
starts and iterations of ``annealed-map`` with ``class-gaussian`` cannot buy. For R averaged rounds sigma^2 is the
defense's over R.

Source: linear Gaussian models, "Pattern Recognition and Machine Learning" (Bishop), eqs. (2.116) and (2.117).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.latents.scene import Scene, scene_of
from leaklab.attacks.matching.distances import clipped, squared_l2
from leaklab.attacks.matching.gradients import general_gradients
from leaklab.captures.truth import Truth
from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_update import UpdateMetric
from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.traits import MetricTraits
from leaklab.specs.attack import AttackSpec

NAME = "linear-posterior"
PRIOR, NOISES = "class-gaussian", ("additive-noise", "clipping-noise")
TOGETHER = 64
"""Directions that are differentiated at once: a speed and memory knob only."""

Update = Callable[[Tensor], Tensor]
"""Images [B, C, H, W] on the [0, 1] scale -> all entries of their update without noise, [n]; differentiable."""


def expected_errors(update: Update, images: Tensor, factors: Tensor, sigma: float) -> Tensor:
    """Return the error of each image's pixels under the linear posterior, float64 [B].

    Args:
        update: see ``Update``.
        images: the true ones, [B, C, H, W].
        factors: L of each image's prior, [B, C * H * W, K].
        sigma: standard deviation of the noise on each entry; positive.
    """
    seen = _seen(update, images, factors) / sigma
    precision = torch.eye(len(seen)).to(seen) + seen @ seen.T
    covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision))
    latents = factors.shape[2]
    blocks = [covariance[k : k + latents, k : k + latents] for k in range(0, len(covariance), latents)]
    return torch.stack([((L @ own) * L).sum() for L, own in zip(factors, blocks, strict=True)]) / factors.shape[1]


def _seen(update: Update, images: Tensor, factors: Tensor) -> Tensor:
    """Return how the update changes with each latent of each image: J L transposed, [B * K, n]."""
    rows = []
    for place, factor in enumerate(factors):
        for directions in torch.split(factor.T, TOGETHER):
            tangents = images.new_zeros(len(directions), *images.shape)
            tangents[:, place] = directions.view(-1, *images.shape[1:])
            rows.append(torch.func.vmap(lambda tangent: torch.func.jvp(update, (images,), (tangent,))[1])(tangents))
    return torch.cat(rows)


def update_of(network: nn.Sequential, labels: Tensor, classes: int, bound: float | None) -> Update:
    """Return the gradient of a batch with these labels [B], clipped to a norm of ``bound`` unless that is None."""
    targets = F.one_hot(labels, classes)[None]

    def update(inputs: Tensor) -> Tensor:
        gradients = general_gradients(network, inputs[None], targets.to(inputs))
        if bound is not None:
            gradients = clipped(gradients, inputs.new_full((1,), bound))[0]
        return torch.cat([gradient.flatten() for gradient in gradients])

    return update


@dataclass(frozen=True)
class LinearPosterior(UpdateMetric):
    """The expected error at each private image, beside which the MSE of an attack is to be read."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_update=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="linear_posterior",
            unit="",
            better="higher",
            domain="[0, 1]",
            peak=None,
            clamping="none",
            network="",
            input_range="[0, 1]",
            assignment="none: it is computed at the private images, whatever was guessed",
            note="the MSE to expect of an attacker whose prior is the generator's Gaussian of the true class, "
            "linearised at the private image; other priors may go below",
        )

    def refusal(self, spec: AttackSpec) -> str | None:
        """Return why an attack has no such number, or None if it has one."""
        if spec.capture.defense.name not in NOISES:
            return f"it is that of the defenses {' and '.join(NOISES)}"
        if spec.generator is None or spec.generator.model.name != PRIOR:
            return f"its prior is the generator {PRIOR}"
        return "it is that of one local step" if spec.capture.local_steps > 1 else None

    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return the expected errors [T, B]; see ``UpdateMetric``."""
        assert generator is not None  # refusal() asks for it
        scene = scene_of(NAME, generator, observation.as_gradient(knowledge, NAME), knowledge, squared_l2)
        pairs = zip(truth.images, truth.labels, strict=True)
        return torch.stack([self._at(scene, images.double(), labels) for images, labels in pairs])

    def _at(self, scene: Scene, images: Tensor, labels: Tensor) -> Tensor:
        assert isinstance(scene.generator, ClassGaussianGenerator)
        declared = scene.knowledge.require("defense", NAME)
        defense = plugins.load("defenses", declared["name"], declared["settings"])
        update = update_of(scene.network, labels, scene.generator.num_classes, getattr(defense, "bound", None))
        sigma = defense.sigma / sqrt(scene.knowledge.rounds)
        components = scene.generator.factor.detach()
        factors = components[labels % len(components)]  # one for all classes where they are pooled
        return expected_errors(lambda unit: update(scene.as_inputs(unit)), images, factors, sigma)


PLUGIN = LinearPosterior
