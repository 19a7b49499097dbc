"""Annealed MAP: the likeliest images of an update under a public prior, sought while the likelihood narrows.

All images of an update are sought at once, as latents of a generator. Where the observation is exact but for what a
defense hides, its likelihood is a valley too narrow to descend into: so it is widened, and narrowed in stages. The
prior leads at first and has faded at the end. Where the update carries noise of a known law, the likelihood is that
law, and there is one stage.

Sources: maximum a posteriori reconstruction, "Bayesian Framework for Gradient Leakage"; narrowing in stages is
graduated non-convexity, "Visual Reconstruction" (Blake, Zisserman).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction
from leaklab.attacks.labels.public import labels_of
from leaklab.attacks.latents.posterior import (
    Posterior,
    latent_starts,
    likeliest,
    narrowed,
    posterior_of,
    refined,
    require_one_guess,
)
from leaklab.attacks.latents.scene import Scene, scene_of_case
from leaklab.attacks.latents.splitting import Splitting
from leaklab.attacks.latents.unrolled import Ladder, unrolled_posterior
from leaklab.attacks.matching.distances import Distance, Likelihood, profiled_scale
from leaklab.attacks.matching.steps import at_mean_weights, mean_gradient
from leaklab.attacks.reconstructions import joined
from leaklab.attacks.search.backtracking import Descent
from leaklab.attacks.stepwise import stepwise_posteriors
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Natural, NonNegative, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits

MAP = "annealed-map"
MATCHINGS = ("gradient", "unrolled")


@dataclass(frozen=True)
class AnnealedMap(Splitting):
    """Search the latents of all images of an update by their posterior, from coarse to fine; computed in float64.

    It is made for the generator ``class-gaussian`` and takes any whose latents are N(0, 1). The budget's iterations are
    evaluations per stage.

    Attributes:
        label_rule: ``likelihood`` (for one sample per update), or a rule of ``labels.fixed_labels``: ``counts`` for
            batches at a known scale, ``unmixed`` at any; see ``public.labels_of``.
        coarsest: error of each entry in the first stage, relative to the norm of the observed gradient.
        finest: the same in the last stage.
        stages: how many; a transform with a likelihood of its own (``matched-noise``) has one.
        box: weight of the squares by which pixels leave [0, 1], beside a negative log-density.
        spread: standard deviation of a start's latents. The first start of a single image is the class's mean image;
            images of one class that began alike would stay alike.
        history: pairs kept by L-BFGS.
        matching: ``gradient`` (one gradient stands for all local steps) or ``unrolled`` (the steps are simulated, with
            their rates as unknowns; see ``unrolled``). The latter goes with transform ``none``.
        client_factor: mean of the client's rates over the nominal one, where steps are simulated; p_k N under
            scheme 1.
        refinements: how often the search is repeated with the Gaussian of the public images nearest to what was found
            (``neighbours``); takes one restart and a ``class-gaussian`` that keeps images.
        neighbours: public images of the class in that Gaussian; at least two.
        samples: of the client's round, where each of its local steps has a batch of its own: the steps are simulated in
            their order, and ``label_rule`` is ``known``; 0 for one batch, which all steps repeat.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="stages", again="refinements", evaluation_factor=1.8)

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS, "matching": {"unrolled": PRESCRIBED_STEPS}},
        facts_when_set={
            "client_factor": ("client_weight",),
            "refinements": ("public_images",),
            "samples": ("samples", *PRESCRIBED_STEPS),
        },
        generator=True,
        several_batches=True,
    )

    label_rule: str = "likelihood"
    coarsest: Positive = 3.6e-3
    finest: Positive = 1.1e-5
    stages: Count = 6
    box: NonNegative = 100.0
    spread: NonNegative = 0.3
    history: Count = 40
    matching: str = "gradient"
    client_factor: Positive = 1.0
    refinements: Natural = 0
    neighbours: Count = 1000
    samples: Natural = 0

    def __post_init__(self) -> None:
        """Refuse stages that do not narrow, an unknown matching, and too few neighbours."""
        self.ladder()
        self.require_levels(MAP, self.refinements)
        if self.neighbours < 2:
            raise UserError(f"{MAP} needs at least two neighbours, not {self.neighbours}")
        if self.matching not in MATCHINGS:
            raise UserError(f"{MAP} has no matching '{self.matching}': choose from {', '.join(MATCHINGS)}")

    def ladder(self) -> Ladder:
        """Return the stages.

        Raises:
            UserError: ``coarsest`` is below ``finest``.
        """
        return Ladder(self.coarsest, self.finest, self.stages)

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``. All starts run, side by side.

        Raises:
            UserError: facts are withheld, the label rule does not fit the batch, the observation is no gradient or not
                finite, or the generator does not make the victim's images and classes.
        """
        scene, iterations = scene_of_case(MAP, case), case.budget.iterations
        labels = labels_of(self._of_labels(scene), self.label_rule, case.streams, self.samples)
        posterior, trials = self._posterior(scene, labels), case.observation.trials
        starts = latent_starts(posterior, trials, case.budget.restarts, case.streams, self.spread)
        if self.splits:
            require_one_guess(MAP, case.budget)
            posterior, stages = self.split(self._stages(posterior), starts, iterations, self.history)
            return likeliest(posterior, stages, labels, trials, kept=False)
        stages = self._narrowed(posterior, starts, iterations)
        if self.refinements:
            require_one_guess(MAP, case.budget)
        posterior, stages = refined(
            posterior, stages, self.refinements, self.neighbours, partial(self._narrowed, iterations=iterations)
        )
        return likeliest(posterior, stages, labels, trials, kept=self.refinements == 0)

    def _of_labels(self, scene: Scene) -> Scene:
        """Return the scene by which labels are read: hidden rates hide the scale of a gradient that stands for all."""
        return replace(scene, distance=profiled_scale) if self.matching == "unrolled" else scene

    def _posterior(self, scene: Scene, labels: Tensor) -> Posterior:
        box = self.box
        if self.matching == "unrolled":
            return unrolled_posterior(scene, labels, box, self.client_factor)
        return posterior_of(scene, labels, box)

    def _narrowed(self, posterior: Posterior, starts: Tensor, iterations: int) -> list[Descent]:
        """Return where the starts [T * R, n] ended in each stage, whose distance weighs more and more."""
        return narrowed(self._stages(posterior), starts, iterations, self.history)

    def _stages(self, posterior: Posterior) -> list[Posterior]:
        weights = self.ladder().weights(posterior.scene.distance, posterior.inversion.loss_of_nothing())
        return [posterior.weighted(one) for one in weights]


# Annealed likelihood: annealed MAP where the likelihood is the law of a defense, which narrows from stage to stage.

LAW = "annealed-likelihood"
PLACES = ("sent", "mean", "steps")


@dataclass(frozen=True)
class AnnealedLikelihood(Splitting):
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

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="stages", again="refinements", evaluation_factor=1.8)

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
        self.require_levels(LAW, self.refinements)
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
        if self.splits:
            require_one_guess(LAW, case.budget)
            posterior, stages = self.split(posteriors, start, iterations, self.history)
            return likeliest(posterior, stages, labels, trials, kept=False)
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


PLUGINS = {
    "annealed-likelihood": AnnealedLikelihood,
    "annealed-map": AnnealedMap,
}
