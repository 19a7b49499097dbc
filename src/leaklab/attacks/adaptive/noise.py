"""Matched noise: the likelihood of the observation under the defense's own noise.

With additive noise the observation is o = g + N(0, sigma^2) in each of its n entries, or o = clip(g) + the same after
clipping. The loss is the negative logarithm of that density at the dummy gradient g', without its constant:

    ||clip(g') - o||^2 / (2 sigma^2)

A prior of density p(x) belongs beside it as -log p(x), so that the sum is the negative logarithm of the posterior: that
is a weight of one over the loss of a zero gradient, in the unit of ``priors.WithPrior``. On its own the loss has the
minimum of the plain squared L2 distance (after the emulated clip).
At the true sample it is not 0 but half a chi-squared variable: n / 2 on average, with variance n / 2. A loss below
that fits noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isclose, sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import InferredGradient, OfOneTrial
from leaklab.attacks.matching.distances import Distance, clipped, squared_norm
from leaklab.attacks.private_parts.heads import completed
from leaklab.defenses.base import require_between
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records import plugins
from leaklab.records.bounds import Positive, Seed
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class MatchedNoise(InferredGradient):
    """Match by the noise's likelihood, with the known standard deviation and, where there is one, the known clip.

    Both are the defense's, which the threat model grants; a setting that is given is held against it. With several
    local steps the noise of the inferred gradient is the steps' mean, so that sigma is the defense's over the root of
    their number; how the noise moved the weights between the steps is not modelled. An observation that is the mean of
    several rounds has that much less noise again: sigma over the root of steps times rounds.

    Attributes:
        sigma: standard deviation of the noise on the inferred gradient; positive, None for what the defense says.
        bound: the clip's bound; None for what the defense says.
    """

    name: ClassVar[str] = "matched-noise"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("additive-noise", "clipping-noise")
    )

    sigma: Positive | None = None
    bound: Positive | None = None

    def __post_init__(self) -> None:
        given = {"sigma": self.sigma, "bound": self.bound}
        require_between("transform matched-noise", 0, inf, **{name: x for name, x in given.items() if x is not None})

    @property
    def distance(self) -> Distance:
        """The negative log-likelihood under this noise.

        Raises:
            UserError: no sigma was set, and ``informed`` has read none.
        """
        if self.sigma is None:
            raise UserError("matched-noise does not know the noise: set sigma, or read it from the facts (informed)")
        return NormalLikelihood(self.sigma, self.bound)

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones.

        Raises:
            UserError: a fact is withheld, or the settings are not those of the defense.
        """
        self.informed(knowledge)
        return super().prepare(observation, knowledge)

    def informed(self, knowledge: Knowledge) -> "MatchedNoise":
        """Return the transform with the sigma and the bound of the defense; see ``InformedTransform``.

        Raises:
            UserError: a fact is withheld, or the settings are not those of the defense.
        """
        declared = knowledge.require("defense", self.name)
        defense = plugins.load("defenses", declared["name"], declared["settings"])
        steps = knowledge.require("local_steps", self.name) * knowledge.rounds
        sigma, bound = self.noise_and_bound(defense, knowledge)
        if not sigma:
            raise UserError(f"transform '{self.name}' does not fit defense '{declared['name']}', which has no sigma")
        expected = sigma / sqrt(steps)
        if self.sigma is not None and not isclose(self.sigma, expected, rel_tol=1e-9):
            raise UserError(
                f"the noise of '{declared['name']}' over {steps} steps is not {self.sigma}: leave sigma of transform "
                f"'{self.name}' out or set it to {expected}"
            )
        if self.bound is not None and self.bound != bound:
            raise UserError(
                f"the bound of '{declared['name']}' is not {self.bound}: leave bound of transform '{self.name}' out"
            )
        return replace(self, sigma=expected if self.sigma is None else self.sigma, bound=bound)

    def noise_and_bound(self, defense: Any, knowledge: Knowledge) -> tuple[float | None, float | None]:
        """Return the deviation of one step's noise and the bound of its clip; None for what the defense has not.

        Raises:
            UserError: the law of the observed gradient is another one.
        """
        return getattr(defense, "sigma", None), getattr(defense, "bound", None)


@dataclass(frozen=True)
class NormalLikelihood:
    """``negative_log_likelihood`` of a noise as a ``matching.Distance``.

    Attributes:
        sigma: standard deviation of the noise.
        bound: of the clip before it; None for none.
    """

    log_likelihood: ClassVar[bool] = True

    sigma: float
    bound: float | None = None

    def __call__(self, gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return value, residuals and factor; see ``matching.Distance``."""
        return negative_log_likelihood(gradients, observed, sigma=self.sigma, bound=self.bound)


def negative_log_likelihood(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], *, sigma: float, bound: float | None = None
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||clip(g') - o||^2 / (2 sigma^2), the clip with one norm over all tensors; see ``matching.Distance``."""
    if bound is None:
        residuals = [gradient - target for gradient, target in zip(gradients, observed, strict=True)]
        value = squared_norm(residuals) / (2 * sigma**2)
        return value, residuals, torch.full_like(value, sigma**-2)
    bounds = gradients[0].new_full((len(gradients[0]),), bound)
    shortened, pull_back = clipped(gradients, bounds)
    value, residuals, factor = negative_log_likelihood(shortened, observed, sigma=sigma)
    return value, pull_back(residuals), factor


# The likelihood of an update under DP-SGD, for one sample in each step.


@dataclass(frozen=True)
class MatchedDpSgd(MatchedNoise):
    """Match by the likelihood of the noise after the clip of a single sample; see ``MatchedNoise``.

    Attributes:
        sigma: standard deviation of the noise on the inferred gradient, the noise multiplier times the bound over the
            root of steps times rounds; None for what the defense says.
        bound: the clip's bound; None for what the defense says.
    """

    name: ClassVar[str] = "matched-dp-sgd"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*LAW_OF_DEFENSE, "batch_size"),
        facts_for_delta=PRESCRIBED_STEPS,
        fits=("dp-sgd",),
        largest_batch=1,
    )

    def noise_and_bound(self, defense: Any, knowledge: Knowledge) -> tuple[float | None, float | None]:
        """Return sigma C and C.

        Raises:
            UserError: a step had several samples.
        """
        batch_size = knowledge.require("batch_size", self.name)
        if batch_size != 1:
            raise UserError(
                f"transform '{self.name}' knows the law of one clipped sample, not of the mean of {batch_size}: set "
                "batch_size: 1"
            )
        return defense.sigma * defense.bound, defense.bound


# The likelihood of an extractor's update under DP-SGD, where the client keeps its classifier to itself.


@dataclass(frozen=True)
class MatchedDpSgdExtractor(OfOneTrial):
    """Match an extractor's gradient by the noise's law, behind a drawn classifier; see ``MatchedDpSgd``.

    Attributes:
        draw: seed of the classifier that is drawn; see ``private_layers``.
    """

    name: ClassVar[str] = "matched-dp-sgd-extractor"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*LAW_OF_DEFENSE, "batch_size"),
        facts_for_delta=PRESCRIBED_STEPS,
        fits=("dp-sgd",),
        largest_batch=1,
    )

    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient with a whole network, and the likelihood of its noise.

        Raises:
            UserError: facts are withheld, or a step had several samples.
        """
        gradient = observation.as_gradient(knowledge, self.name)
        whole = completed(gradient, knowledge, "drawn", self.draw, self.name)
        return whole, MatchedDpSgd().informed(knowledge).distance


PLUGINS = {
    "matched-dp-sgd": MatchedDpSgd,
    "matched-dp-sgd-extractor": MatchedDpSgdExtractor,
    "matched-noise": MatchedNoise,
}
