"""Annealed likelihood: annealed MAP where the likelihood is the law of a defense, which narrows from stage to stage.

``annealed-map`` narrows a distance by its weight. A defense that leaves parts of an update exact, or says something by
which entries it changed, has a likelihood of another shape at every error (``likelihood``); its weight is always one,
that of a log-likelihood beside a log-prior. Everything else is as there.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.annealing import Ladder
from leaklab.attacks.base import Attack, Case, Reconstruction
from leaklab.attacks.likelihood import Likelihood
from leaklab.attacks.matching import Distance
from leaklab.attacks.mean_weights import at_mean_weights
from leaklab.attacks.parts import joined
from leaklab.attacks.posterior import Posterior, posterior_of
from leaklab.attacks.posterior_search import latent_starts, likeliest, narrowed, refined, require_one_guess
from leaklab.attacks.public_labels import labels_of
from leaklab.attacks.scene import scene_of_case
from leaklab.attacks.stepwise import stepwise_posteriors
from leaklab.attacks.undone_steps import mean_gradient
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Natural, NonNegative, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits

LAW = "annealed-likelihood"
PLACES = ("sent", "mean", "steps")


@dataclass(frozen=True)
class AnnealedLikelihood:
    """Search the latents of all images of an update by their posterior, from coarse to fine; computed in float64.

    It goes with a transform that has a likelihood to be narrowed (``ranked-mixture``, ``matched-laplace``), and with
    the generator ``class-gaussian``. The budget's iterations are evaluations per stage.

    Attributes:
        label_rule: as in ``annealed-map``; ``likelihood`` reads the label by the coarsest likelihood.
        coarsest: error of each entry of the dummy gradient in the first stage, relative to the root mean square of its
            tensor; see ``likelihood``.
        finest: the same in the last stage.
        stages: how many.
        box: weight of the squares by which pixels leave [0, 1], beside a negative log-density.
        spread: standard deviation of a start's latents; as in ``annealed-map``.
        history: pairs kept by L-BFGS.
        refinements: how often the last stage is repeated with the Gaussian of the public images nearest to what was
            found (``neighbours``); takes one restart and a ``class-gaussian`` that keeps images.
        neighbours: public images of the class in that Gaussian; at least two.
        place: weights at which the gradient is taken: ``sent``, or ``mean`` of those that the local steps saw
            (``mean_weights``), which are the same for one step. ``steps``: each local step is simulated and has a
            gradient of its own, and the likelihood is the law of their sum (``stepwise``); it takes ``matched-noise``
            too.
        samples: of the client's round, where each of its local steps has a batch of its own: the steps are simulated in
            their order, and ``label_rule`` is ``known``; 0 for one batch, which all steps repeat.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="stages", again="refinements")

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS, "place": {"mean": PRESCRIBED_STEPS, "steps": PRESCRIBED_STEPS}},
        facts_when_set={"refinements": ("public_images",), "samples": ("samples", *PRESCRIBED_STEPS)},
        generator=True,
        several_batches=True,
    )

    label_rule: str = "likelihood"
    coarsest: Positive = 0.1
    finest: Positive = 3e-3
    stages: Count = 4
    box: NonNegative = 100.0
    spread: NonNegative = 0.3
    history: Count = 40
    refinements: Natural = 0
    neighbours: Count = 1000
    place: str = "sent"
    samples: Natural = 0

    def __post_init__(self) -> None:
        """Refuse stages that do not narrow, an unknown place, and too few neighbours."""
        self.ladder()
        if self.place not in PLACES:
            raise UserError(f"{LAW} takes the gradient at no place '{self.place}': choose from {', '.join(PLACES)}")
        if self.neighbours < 2:
            raise UserError(f"{LAW} needs at least two neighbours, not {self.neighbours}")
        if self.samples and self.place == "mean":
            raise UserError(f"{LAW} simulates steps with batches of their own from the weights sent: set place: sent")

    def ladder(self) -> Ladder:
        """Return the stages.

        Raises:
            UserError: ``coarsest`` is below ``finest``.
        """
        return Ladder(self.coarsest, self.finest, self.stages)

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``. All starts run, side by side.

        Raises:
            UserError: the transform has no likelihood to be narrowed; else as ``annealed-map``.
        """
        if self.place == "steps" and case.distance is not None:
            return self._sought_by_steps(case, case.distance)
        if not isinstance(case.distance, Likelihood):
            raise UserError(
                f"{LAW} needs a transform with a likelihood of its own, such as ranked-mixture for outpost: choose "
                "one that fits the defense, or attack annealed-map"
            )
        if self.place == "sent":
            return self._sought(case, case.distance)
        observation = case.observation
        alone = [
            at_mean_weights(observation.select([row]), case.knowledge, LAW) for row in range(len(observation.trials))
        ]
        return joined([self._sought(replace(case, observation=one), case.distance) for one in alone])

    def _sought(self, case: Case, distance: Likelihood) -> Reconstruction:
        likelihoods = [distance.widened(error, case.observation.weights) for error in self.ladder().errors()]
        scene = scene_of_case(LAW, replace(case, distance=likelihoods[0]))
        labels = labels_of(scene, self.label_rule, case.streams, self.samples)
        posteriors = [posterior_of(replace(scene, distance=one), labels, self.box) for one in likelihoods]
        return self._found(posteriors, labels, case)

    def _sought_by_steps(self, case: Case, distance: Distance) -> Reconstruction:
        observation, errors = mean_gradient(case.observation, case.knowledge, LAW), self.ladder().errors()
        of_mean = distance.widened(errors[0], observation.weights) if isinstance(distance, Likelihood) else distance
        scene = scene_of_case(LAW, replace(case, observation=observation, distance=of_mean))
        labels = labels_of(scene, self.label_rule, case.streams, self.samples)
        return self._found(stepwise_posteriors(scene, distance, errors, labels, self.box), labels, case)

    def _found(self, posteriors: list[Posterior], labels: Tensor, case: Case) -> Reconstruction:
        trials, iterations = case.observation.trials, case.budget.iterations
        start = latent_starts(posteriors[0], trials, case.budget.restarts, case.streams, self.spread)
        stages = narrowed(posteriors, start, iterations, self.history)
        if self.refinements:
            require_one_guess(LAW, case.budget)
        posterior, stages = refined(
            posteriors[-1],
            stages,
            self.refinements,
            self.neighbours,
            lambda near, guesses: narrowed([near], guesses, iterations, self.history),
        )
        return likeliest(posterior, stages, labels, trials, kept=self.refinements == 0)


PLUGIN: type[Attack] = AnnealedLikelihood
