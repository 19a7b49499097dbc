"""Posterior of the latents of an update over several local steps whose rates are hidden.

LRP hides one number per local step, drawn from U(0, 2 mean). So the rates are unknowns beside the latents, and what is
compared is the whole simulated delta::

    -log p(z, r | o) = weight * D(delta(x, r), o) + 1/2 |z|^2 + box + 1e3 * sum of (r - clip(r, 0, 2))^2

with rates r relative to their mean. Within the interval every rate is as likely as any other.

Source: local steps with a rate of their own, LRP paper, eq. (10); the attacker is ours.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.latents.posterior import Posterior, own_batches
from leaklab.attacks.latents.scene import Scene
from leaklab.attacks.matching.delta import DeltaMatching, Samples, as_delta
from leaklab.attacks.matching.steps import steps_of
from leaklab.records.errors import UserError

LARGEST_RATE = 2.0
"""Relative to the mean; the smallest is 0."""
STRAYING = 1e3
"""Weight of the squares by which rates leave their interval, beside a negative log-density."""


class FreeRates(DeltaMatching):
    """Matching loss for unknown rates: the unknowns of a trial are its images, then E numbers, one per local step.

    A number u of the real line stands for the rate mean * (1 + u), or for the nearest one within [0, 2 mean]; so 0
    stands for the mean. Unlike in ``JointRates`` the ends of the interval are within reach.
    """

    @property
    def unknowns(self) -> int:
        """Number of unknowns of one trial."""
        return self.samples.pixels + len(self.rates)

    def local_rates(self, others: Tensor) -> Tensor:
        """Return the rates [S, E] for the unknowns [S, E]."""
        return self.rates.to(others) * (1 + others).clamp(0, LARGEST_RATE)


@dataclass(frozen=True)
class UnrolledPosterior(Posterior):
    """A posterior whose unknowns are the latents of a trial's B images, then its E rates; see ``FreeRates``."""

    inversion: FreeRates

    @property
    def others(self) -> int:
        """Number of unknowns that are no latents: one for each step."""
        return len(self.inversion.rates)

    def beliefs(self, points: Tensor, images: Tensor) -> Tensor:
        """Return the negative log-density of the prior [S] at ``points`` [S, n], up to a constant."""
        rates = 1 + self.other(points)
        straying = ((rates - rates.clamp(0, LARGEST_RATE)) ** 2).sum(1)
        return super().beliefs(points, images) + STRAYING * straying


def unrolled_posterior(scene: Scene, labels: Tensor, box: float, client_factor: float = 1.0) -> UnrolledPosterior:
    """Return the posterior of a scene's trials for labels [T, B]; the distance weighs 1.

    Args:
        scene: whose observation is the gradient that the server infers; deltas are compared in its units.
        labels: [T, B] of one batch, or of one for each step.
        box: see ``Posterior``.
        client_factor: mean of the client's rates over the nominal one; p_k N under scheme 1.

    Raises:
        UserError: the rates are withheld, or the observation is the mean of several rounds.
    """
    if scene.knowledge.rounds > 1:
        raise UserError(
            f"{scene.attack} simulates one delta, and the observation is the mean of {scene.knowledge.rounds} rounds: "
            "set matching: gradient"
        )
    like, classes = scene.observed[0], scene.generator.num_classes
    samples = Samples((labels.shape[1], *scene.generator.image_shape), classes, labels)
    deltas = list(as_delta(scene.observation, scene.knowledge).update.values())
    rates = client_factor * torch.tensor(scene.knowledge.assumed_rates(scene.attack)).to(like)
    steps = steps_of(scene.knowledge, own_batches(scene, labels), scene.attack)
    matching = FreeRates(scene.network, deltas, samples, rates, scene.distance, steps)
    targets = F.one_hot(labels, classes).to(like)
    return UnrolledPosterior(scene, matching, targets, like.new_ones(len(labels)), box)
