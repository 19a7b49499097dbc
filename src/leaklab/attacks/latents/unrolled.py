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
from leaklab.attacks.matching.distances import Distance, is_log_likelihood
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


# How much a matching distance weighs against a prior, from stage to stage.
#
# A distance that is a negative log-likelihood already (``matched-noise``) weighs 1, in one stage. Any other one says
# nothing of errors; where the observation is exact, its weight should be endless. It grows towards that in stages, as
# if each entry had an error of a standard deviation s that shrinks:
#
#     weight = 1 / (2 s^2 D(0, o))
#
# with the distance D(0, o) of a zero gradient as unit, so that s is relative to the size of the observed gradient and
# means the same whatever is matched.


@dataclass(frozen=True)
class Ladder:
    """The errors s of the stages, in equal ratios.

    Attributes:
        coarsest: of the first stage; positive.
        finest: of the last one; positive, and of the only one.
        stages: at least 1.
    """

    coarsest: float
    finest: float
    stages: int

    def __post_init__(self) -> None:
        if not (self.coarsest >= self.finest > 0 and self.stages >= 1):
            raise UserError("annealing goes from coarsest down to finest, both above 0, in at least one stage")

    def errors(self) -> list[float]:
        """Return s of each stage, largest first."""
        steps = self.stages - 1
        ratio = (self.finest / self.coarsest) ** (1 / steps) if steps else 1.0
        return [self.finest / ratio**left for left in range(steps, -1, -1)]

    def weights(self, distance: Distance, nothing: Tensor) -> list[Tensor]:
        """Return the weight [T] of the distance in each stage.

        Args:
            distance: see ``matching``.
            nothing: its value for a zero gradient, [T].
        """
        if is_log_likelihood(distance):
            return [torch.ones_like(nothing)]
        return [1 / (2 * error**2 * nothing) for error in self.errors()]
