"""Transforms whose distance is the likelihood of the defense's own law: read from the facts, or learnt.

Source: defenses, "Protect Privacy from Gradient Leakage Attack in Federated Learning" (``sliced-mixture``); the
attackers are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Any, ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import InferredGradient
from leaklab.attacks.learnt import laws
from leaklab.attacks.learnt.runs import SlicedLaw
from leaklab.attacks.matching.distances import ALIKE, Differentiated, Distance, OfTheMean, OnlyWidened, mean_square
from leaklab.defenses.grad_defense import GradDefense
from leaklab.defenses.noise import LaplaceNoise
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records import plugins
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Lawful(InferredGradient):
    """Base of such transforms; a subclass gives ``law``, and in ``requirements.fits`` the defense.

    With several local steps the inferred gradient is their mean. That gradients differ from step to step is modelled
    where the law is a ``distances.StepLikelihood`` and the attack asks for it (``place: steps``). It goes with attack
    ``annealed-likelihood``.
    """

    requirements: ClassVar[Requirements]

    @property
    def distance(self) -> Distance:
        """Refuse: the law stands in the facts.

        Raises:
            UserError: always.
        """
        raise UserError(f"transform '{self.name}' has not read the defense from the facts yet (informed)")

    def law(self, defense: Any, steps: int, rounds: int) -> OnlyWidened:
        """Return the law of the observed mean of the steps of all rounds.

        Raises:
            UserError: the law of these settings is not known.
        """
        raise NotImplementedError  # every transform has its own law

    def informed(self, knowledge: Knowledge) -> "Informed":
        """Return the transform with the law of the defense; see ``InformedTransform``.

        Raises:
            UserError: a fact is withheld, or the defense is another one.
        """
        declared, fits = knowledge.require("defense", self.name), self.requirements.fits
        if declared["name"] not in fits:
            raise UserError(
                f"transform '{self.name}' is made for {' and '.join(fits)}, not for defense '{declared['name']}'"
            )
        defense = plugins.load("defenses", declared["name"], declared["settings"])
        steps = int(knowledge.require("local_steps", self.name))
        return Informed(self, self.law(defense, steps, knowledge.rounds))


@dataclass(frozen=True)
class Informed:
    """Such a transform that has read the facts.

    Attributes:
        plugin: what it was.
        likelihood: of the update, to be narrowed.
    """

    requirements: ClassVar[Requirements] = Requirements()

    plugin: InferredGradient
    likelihood: OnlyWidened

    @property
    def distance(self) -> Distance:
        """The likelihood."""
        return self.likelihood

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones; see ``Transform.prepare``."""
        return self.plugin.prepare(observation, knowledge)


# Matched Laplace: the likelihood of an update under the defense's own Laplace noise.


@dataclass(frozen=True)
class LaplaceLaw(OnlyWidened):
    """The mean of independent draws of Laplace noise; a ``distances.Likelihood``.

    Attributes:
        scale: b of one draw; positive.
        draws: N.
    """

    scale: float
    draws: int = 1

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        return Differentiated(partial(_negative_log_likelihood, law=self, error=error))

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the same of the mean of steps; see ``distances.StepLikelihood``.

        Raises:
            UserError: steps of different weight, whose noise has another law.
        """
        if len(shares) != self.draws or max(shares) - min(shares) > ALIKE:
            raise UserError("transform 'matched-laplace' knows the mean of steps at one rate: leave rate_schedule out")
        return OfTheMean(self.widened(error, weights), tuple(shares))

    def moved(self, gradient: Tensor) -> Tensor:
        """Return the gradient: the mean of the noise is zero."""
        return gradient


def _negative_log_likelihood(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], law: LaplaceLaw, error: float
) -> Tensor:
    pairs = zip(gradients, observed, strict=True)
    return torch.stack([_of_tensor(g.flatten(1), o.flatten(1), law, error) for g, o in pairs]).sum(0)


def _of_tensor(gradient: Tensor, observed: Tensor, law: LaplaceLaw, error: float) -> Tensor:
    """Return the value [T] of one tensor [T, n]."""
    floor = error**2 * mean_square(observed).clamp(min=torch.finfo(observed.dtype).tiny)
    sizes = law.draws / law.scale * (((observed - gradient) ** 2 + floor).sqrt() - floor.sqrt())
    return (sizes - torch.log(_polynomial(sizes, law.draws))).sum(1)


def _polynomial(sizes: Tensor, draws: int) -> Tensor:
    """Return the sum over k of c_k z^(N - 1 - k) over its value at 0, by Horner's rule."""
    last = _coefficient(draws - 1, draws)
    total = torch.full_like(sizes, _coefficient(0, draws) / last)
    for k in range(1, draws):
        total = total * sizes + _coefficient(k, draws) / last
    return total


def _coefficient(k: int, draws: int) -> float:
    return float(factorial(draws - 1 + k)) / (factorial(k) * factorial(draws - 1 - k)) / 2.0**k


@dataclass(frozen=True)
class MatchedLaplace(Lawful):
    """Match by the likelihood of Laplace noise; see ``Lawful``."""

    name: ClassVar[str] = "matched-laplace"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("laplace-noise",)
    )

    def law(self, defense: LaplaceNoise, steps: int, rounds: int) -> LaplaceLaw:
        """Return the law of the mean noise."""
        return LaplaceLaw(defense.scale, steps * rounds)


@dataclass(frozen=True)
class SlicedMixture(Lawful):
    """Match by the likelihood of an update under GradDefense; see ``Lawful``."""

    name: ClassVar[str] = "sliced-mixture"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("grad-defense",)
    )

    def law(self, defense: GradDefense, steps: int, rounds: int) -> SlicedLaw:
        """Return the law of the mean of all steps."""
        noised = max(1, round(defense.noised * defense.slices)) / defense.slices
        return SlicedLaw(noised, defense.sigma, defense.clip, steps * rounds)


@dataclass(frozen=True)
class Learnt(InferredGradient):
    """Take a law that was learnt from public images, which the attacker defended himself (stage ``law``).

    It goes with attack ``annealed-likelihood`` and any defense; of several local steps the law is that of their mean.
    """

    name: ClassVar[str] = "learnt"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, law=True
    )

    @property
    def distance(self) -> Distance:
        """Refuse: the law is a file.

        Raises:
            UserError: always.
        """
        raise UserError(f"transform '{self.name}' was not given its law: add law: {{images: 24}} to its block")

    def taught(self, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Informed:
        """Return the transform with its law; see ``TaughtTransform``.

        Raises:
            UserError: the law is damaged.
        """
        return Informed(self, laws.read(description, tensors))


PLUGINS = {
    "matched-laplace": MatchedLaplace,
    "sliced-mixture": SlicedMixture,
    "learnt": Learnt,
}
