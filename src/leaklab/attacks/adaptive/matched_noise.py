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
from dataclasses import dataclass
from functools import partial
from math import inf, isclose, sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.clip_emulation import clipped
from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.attacks.matching import Distance, squared_norm
from leaklab.defenses.settings import require_between
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, Requirements
from leaklab.records import plugins
from leaklab.records.bounds import Positive
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class MatchedNoise(InferredGradient):
    """Match by the noise's likelihood, with the known standard deviation and, where there is one, the known clip.

    The settings must be the defense's, which the threat model grants; they are held against it. With several local
    steps the noise of the inferred gradient is the steps' mean, so that sigma is the defense's over the root of their
    number; how the noise moved the weights between the steps is not modelled. An observation that is the mean of
    several rounds has that much less noise again: sigma over the root of steps times rounds.

    Attributes:
        sigma: standard deviation of the noise on the inferred gradient; positive.
        bound: the clip's bound; None if the defense only adds noise.
    """

    name: ClassVar[str] = "matched-noise"
    requirements: ClassVar[Requirements] = Requirements(
        facts=("defense", "local_steps"), facts_for_delta=PRESCRIBED_STEPS, fits=("additive-noise", "clipping-noise")
    )

    sigma: Positive = 0.1
    bound: Positive | None = None

    def __post_init__(self) -> None:
        given = {"sigma": self.sigma} | ({} if self.bound is None else {"bound": self.bound})
        require_between("transform matched-noise", 0, inf, **given)

    @property
    def distance(self) -> Distance:
        """The negative log-likelihood under this noise."""
        return partial(negative_log_likelihood, sigma=self.sigma, bound=self.bound)

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones.

        Raises:
            UserError: a fact is withheld, or the settings are not those of the defense.
        """
        declared = knowledge.require("defense", self.name)
        defense = plugins.load("defenses", declared["name"], declared["settings"])
        self._check(declared["name"], defense, knowledge.require("local_steps", self.name), knowledge.rounds)
        return super().prepare(observation, knowledge)

    def _check(self, name: str, defense: Any, steps: int, rounds: int) -> None:
        sigma, bound = getattr(defense, "sigma", None), getattr(defense, "bound", None)
        if sigma is None:
            raise UserError(f"transform 'matched-noise' does not fit defense '{name}', which has no sigma")
        expected = sigma / sqrt(steps * rounds)
        if not isclose(self.sigma, expected, rel_tol=1e-9):
            times = f"{steps} steps" + (f" and {rounds} rounds" if rounds > 1 else "")
            raise UserError(f"the noise of '{name}' over {times} is not {self.sigma}: set sigma to {expected}")
        if self.bound != bound:
            raise UserError(
                f"the bound of '{name}' is not {self.bound}: set bound of transform 'matched-noise' to {bound}"
            )


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


PLUGIN: type[Transform] = MatchedNoise
