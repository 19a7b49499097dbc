"""Annealed MAP of a sum of clients, each of whom hides a rate of its own.

To a search, clients whose rates are hidden are a batch whose samples weigh differently; one factor for all, as
``profiled-scale`` has it, explains no such sum. So each client's factor is an unknown beside the latents::

    -log p(z, f | o) = weight * D(mean of f_k g(x_k), o) + 1/2 |z|^2 + box + 1e3 * sum of (f - clip(f, 0, 2))^2

with factors f relative to their mean, as for the steps of one client (``unrolled``).

Source: sums of clients with rates of their own, LRP paper, section 4.3; the attacker is ours.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.base import Attack, Case, Reconstruction
from leaklab.attacks.labels.public import labels_of
from leaklab.attacks.latents.posterior import Posterior, latent_starts, likeliest, narrowed
from leaklab.attacks.latents.scene import Scene, scene_of_case
from leaklab.attacks.latents.unrolled import LARGEST_RATE, STRAYING, Ladder
from leaklab.attacks.matching.inversion import Dummy, Inversion
from leaklab.defenses.lrp import MaskedSum
from leaklab.observations.base import Knowledge
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.records.bounds import Count, NonNegative, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits

NAME = "annealed-sum"
DEFENSE = "masked-sum"


class FreeFactors(Inversion):
    """Matching loss for unknown factors: the unknowns of a trial are its images, then K numbers, one per client.

    A number u of the real line stands for the factor 1 + u, or for the nearest one within [0, 2]; so 0 stands for the
    mean. A factor on a sample's one-hot label is one on its gradient, as the cross-entropy is linear in the label.

    Attributes:
        clients: K, in each sum.
    """

    clients: int = 1

    def unpack(self, points: Tensor, rows: Tensor) -> Dummy:
        """Return what the unknowns [S, n] of the trials ``rows`` [S] mean."""
        pixels = points.shape[1] - self.clients
        dummy = super().unpack(points[:, :pixels], rows)
        factors = (1 + points[:, pixels:]).clamp(0, LARGEST_RATE)
        of_samples = factors.repeat_interleave(self.shape[0] // self.clients, 1)
        return Dummy(dummy.images, dummy.targets * of_samples[:, :, None])


@dataclass(frozen=True)
class SummedPosterior(Posterior):
    """A posterior whose unknowns are the latents of a trial's B images, then K factors; see ``FreeFactors``."""

    inversion: FreeFactors

    @property
    def others(self) -> int:
        """Number of unknowns that are no latents: one for each client."""
        return self.inversion.clients

    def beliefs(self, points: Tensor, images: Tensor) -> Tensor:
        """Return the negative log-density of the prior [S] at ``points`` [S, n], up to a constant."""
        factors = 1 + self.other(points)
        straying = ((factors - factors.clamp(0, LARGEST_RATE)) ** 2).sum(1)
        return super().beliefs(points, images) + STRAYING * straying


def summed_posterior(scene: Scene, labels: Tensor, box: float, clients: int) -> SummedPosterior:
    """Return the posterior of a scene's sums for labels [T, B]; the distance weighs 1.

    Args:
        scene: whose observations are means over clients, at the scale of a gradient.
        labels: [T, B], client after client.
        box: see ``Posterior``.
        clients: K; it divides B.
    """
    like, classes = scene.observed[0], scene.generator.num_classes
    shape = (labels.shape[1], *scene.generator.image_shape)
    inversion = FreeFactors(scene.network, scene.observed, shape, classes, scene.distance, labels)
    inversion.clients = clients
    return SummedPosterior(scene, inversion, F.one_hot(labels, classes).to(like), like.new_ones(len(labels)), box)


@dataclass(frozen=True)
class AnnealedSum:
    """Search the latents of all clients' images and their factors together, from coarse to fine; in float64.

    It is made for the defense ``masked-sum`` and transform ``none``. Settings are those of ``annealed-map``.

    Attributes:
        label_rule: of ``labels.fixed_labels``, client after client.
        coarsest: error of each entry in the first stage, relative to the norm of the observed gradient.
        finest: the same in the last stage.
        stages: how many.
        box: weight of the squares by which pixels leave [0, 1], beside a negative log-density.
        spread: standard deviation of the unknowns at the start.
        history: pairs kept by L-BFGS.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="stages", evaluation_factor=1.3)

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range", "defense", "clients"),
        facts_when={"label_rule": KNOWN_LABELS},
        generator=True,
    )

    label_rule: str = "known"
    coarsest: Positive = 3.6e-3
    finest: Positive = 1.1e-5
    stages: Count = 6
    box: NonNegative = 100.0
    spread: NonNegative = 0.3
    history: Count = 40

    def __post_init__(self) -> None:
        """Refuse stages that do not narrow."""
        self.ladder()

    def ladder(self) -> Ladder:
        """Return the stages.

        Raises:
            UserError: ``coarsest`` is below ``finest``.
        """
        return Ladder(self.coarsest, self.finest, self.stages)

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``. All starts run, side by side.

        Raises:
            UserError: facts are withheld, the clients have another defense, or else as ``annealed-map``.
        """
        scene, trials = scene_of_case(NAME, case), case.observation.trials
        labels = labels_of(scene, self.label_rule, case.streams)
        posterior = summed_posterior(scene, labels, self.box, clients_of(case.knowledge))
        starts = latent_starts(posterior, trials, case.budget.restarts, case.streams, self.spread)
        weights = self.ladder().weights(scene.distance, posterior.inversion.loss_of_nothing())
        posteriors = [posterior.weighted(one) for one in weights]
        stages = narrowed(posteriors, starts, case.budget.iterations, self.history)
        return likeliest(posterior, stages, labels, trials, kept=True)


def clients_of(knowledge: Knowledge) -> int:
    """Return how many clients a sum has.

    Raises:
        UserError: the defense is withheld, or none that adds up.
    """
    defense = knowledge.require("defense", NAME)
    if defense["name"] != DEFENSE:
        raise UserError(
            f"attack '{NAME}' is made for defense '{DEFENSE}', not for '{defense['name']}': choose annealed-map"
        )
    return int(defense["settings"].get("clients", MaskedSum.clients))


PLUGIN: type[Attack] = AnnealedSum
