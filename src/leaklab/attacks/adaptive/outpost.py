"""Ranked mixture: the likelihood of an update that OUTPOST perturbed.

Per tensor, OUTPOST zeroes the smallest entries but a share, ``kept``, and adds N(0, s^2) to those with the largest
Fisher information, their squares; s = noise_scale * Var(w) is known from the sent weights. So the ranks of the true
gradient g decide what an observed entry o is. From the smallest to the largest, where more are noised than kept:

    o = 0 exactly  |  o = n ~ N(0, s^2)  |  o = g + n

and otherwise o = 0, o = g exactly, o = g + n. Which entries are zero is thus a side channel without noise: they are
the smallest. What the others are, the ranks of the dummy gradient say, softly (``soft_ranks``), and the density of o is
the mixture.

Where N steps (of all rounds) are averaged, of which M were perturbed, an entry is ((N - M) g + M times the above) / N:
no entry is zero as soon as one step was left as it is, the smallest are (1 - M / N) g exactly, and the noise has the
variance M s^2 / N^2. The density is the mixture over M, with the chances of the schedule. That gradients move from step
to step is not modelled.

Source: the defense is algorithm 1 of the OUTPOST paper; the attacker is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from leaklab.attacks.adaptive.laws import Lawful
from leaklab.attacks.adaptive.ranked_steps import StepRanks, largest_only, mostly_zeros, rank_logits
from leaklab.attacks.matching.distances import Differentiated, Distance, OnlyWidened, mean_square
from leaklab.defenses.outpost import GradientCompression, Outpost, dropped_count
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records.errors import UserError

SURE = 1e30
"""A logit that leaves no doubt, where all entries are of one kind."""
MOST_STEPS = 4
"""Of one round with gradients of their own: an entry has three outcomes in each, and so 81 together."""


@dataclass(frozen=True)
class RankedLaw(OnlyWidened):
    """How OUTPOST makes an observed update of a gradient; a ``distances.Likelihood``.

    Attributes:
        pruned: share of each tensor's smallest entries that a perturbed step sets to zero, in [0, 1).
        noised: share of its largest ones that get noise, in [0, 1].
        noise_scale: standard deviation of the noise over the variance of the tensor's weights, which counts as 1 at
            most.
        chances: of M = 0 to N perturbed steps among the N whose mean was observed.
        schedule: chance of each step of a round to be perturbed.
    """

    pruned: float
    noised: float
    noise_scale: float
    chances: tuple[float, ...] = (0.0, 1.0)
    schedule: tuple[float, ...] = (1.0,)

    @property
    def steps(self) -> int:
        """N, the steps whose mean was observed."""
        return len(self.chances) - 1

    def widened(self, error: float, weights: Mapping[str, Tensor]) -> Distance:
        """Return the negative log-likelihood at an error; see ``distances.Likelihood``."""
        deviations = self._deviations(weights)
        return Differentiated(partial(_negative_log_likelihood, law=self, deviations=deviations, error=error))

    def of_steps(self, error: float, weights: Mapping[str, Tensor], shares: Sequence[float]) -> Distance:
        """Return the same of steps with gradients of their own; see ``distances.StepLikelihood``.

        Raises:
            UserError: there are too many steps.
        """
        if not 1 <= len(shares) == len(self.schedule) <= MOST_STEPS:
            raise UserError(
                f"transform 'ranked-mixture' tells at most {MOST_STEPS} steps of one round apart, not {len(shares)}: "
                "set place: mean"
            )
        law = StepRanks(self.counts, self._deviations(weights), self.schedule, shares, error)
        return Differentiated(law.negative_log_likelihood)

    def moved(self, gradient: Tensor) -> Tensor:
        """Return the gradient as a first step prunes it, where that is always perturbed."""
        kept, _ = self.counts(gradient[0].numel())
        return largest_only(gradient, kept) if self.pruned > 0 and self.schedule[0] == 1 else gradient

    def _deviations(self, weights: Mapping[str, Tensor]) -> list[float]:
        return [self.noise_scale * min(float(w.double().var(correction=0)), 1.0) for w in weights.values()]

    @property
    def zeroes(self) -> bool:
        """Whether a perturbed step leaves zeros."""
        return self.pruned > 0 and self.noised < 1

    def counts(self, entries: int) -> tuple[int, int]:
        """Return how many of a tensor's entries are kept, and how many get noise."""
        noised = entries - dropped_count(entries, 1 - self.noised)
        return entries - dropped_count(entries, self.pruned), noised if self.noised > 0 else 0


def _negative_log_likelihood(
    gradients: Sequence[Tensor], observed: Sequence[Tensor], law: RankedLaw, deviations: Sequence[float], error: float
) -> Tensor:
    """Return the value [T] of all tensors, up to a constant that depends on no gradient."""
    sparse = _is_sparse(observed, law)
    tensors = [
        _Entries(g.flatten(1), o.flatten(1), deviation, law, error, sparse)
        for g, o, deviation in zip(gradients, observed, deviations, strict=True)
    ]
    values = []
    for perturbed, chance in enumerate(law.chances):
        if chance > 0:
            value = log(chance) + torch.stack([entries.log_density(perturbed) for entries in tensors]).sum(0)
            # zeros are left only where every step was perturbed
            possible = sparse == (perturbed == law.steps) if law.zeroes and law.steps > 1 else sparse | True
            values.append(torch.where(possible, value, -torch.inf))
    return -torch.stack(values).logsumexp(0)


def _is_sparse(observed: Sequence[Tensor], law: RankedLaw) -> Tensor:
    """Tell of which trials at least half of the entries are zero that are when every step is perturbed: [T]."""
    sizes = [o[0].numel() for o in observed]
    return mostly_zeros(observed, [n - max(law.counts(n)) for n in sizes])


class _Entries:
    """The entries of one tensor of T trials: their kinds by the ranks of the gradient, and densities by kind.

    Args:
        gradient: g, [T, n].
        observed: o, [T, n].
        deviation: s.
        law: of the update.
        error: see ``likelihood``.
        sparse: of which trials every step was perturbed, [T].
    """

    def __init__(
        self, gradient: Tensor, observed: Tensor, deviation: float, law: RankedLaw, error: float, sparse: Tensor
    ) -> None:
        self.gradient, self.observed, self.law = gradient, observed, law
        self.zero = (observed == 0) & sparse[:, None]
        self.floor = error**2 * mean_square(observed).clamp(min=torch.finfo(observed.dtype).tiny)
        self.variance = deviation**2 / law.steps
        kept, noised = law.counts(observed.shape[1])
        self.noise_between = noised > kept
        changed = torch.where(sparse, (~self.zero).sum(1), max(kept, noised))
        self.small, self.changed = self._log_shares(changed, error)
        self.between, self.large = self._log_shares(torch.full_like(changed, min(kept, noised)), error)

    def _log_shares(self, largest: Tensor, error: float) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities [T, n] not to be among the k largest [T], and to be."""
        entries = self.gradient.shape[1]
        logits = torch.zeros_like(self.gradient)
        some = (largest > 0) & (largest < entries)
        if bool(some.any()):
            logits = rank_logits(self.gradient**2, largest.clamp(1, entries - 1), error)
        logits = torch.where(some[:, None], logits, torch.where(largest == 0, -SURE, SURE)[:, None])
        return logsigmoid(-logits), logsigmoid(logits)

    def log_density(self, perturbed: int) -> Tensor:
        """Return the log-density [T] if so many steps were perturbed.

        Densities are multiples of the noise's in N perturbed steps, which may depend on the error only.
        """
        left = 1 - perturbed / self.law.steps
        noise = perturbed / self.law.steps * self.variance + self.floor
        large = self.large + self._normal(1.0, noise)
        between = self.between + (self._normal(left, noise) if self.noise_between else self._normal(1.0, self.floor))
        changed = self.changed + torch.logaddexp(large, between)
        if left == 0:
            return torch.where(self.zero, self.small, changed).sum(1)
        return torch.logaddexp(self.small + self._normal(left, self.floor), changed).sum(1)

    def _normal(self, factor: float, variance: Tensor) -> Tensor:
        """Return the log-density [T, n] of o around ``factor`` g."""
        residual = self.observed - factor * self.gradient
        return -(residual**2) / (2 * variance) - torch.log(variance / (self.variance + self.floor)) / 2


@dataclass(frozen=True)
class RankedMixture(Lawful):
    """Match by the likelihood of an update of which the ranks decide, with the defense's settings; see ``Lawful``.

    Gradient compression is a pruning without noise in every step, and no defense one in no step.
    """

    name: ClassVar[str] = "ranked-mixture"
    requirements: ClassVar[Requirements] = Requirements(
        facts=LAW_OF_DEFENSE, facts_for_delta=PRESCRIBED_STEPS, fits=("outpost", "gradient-compression", "none")
    )

    def law(self, defense: Any, steps: int, rounds: int) -> RankedLaw:
        """Return the law of the defense as the paper describes it.

        Raises:
            UserError: the defense is that of the public code.
        """
        if isinstance(defense, Outpost):
            return _of_outpost(defense, steps, rounds)
        always = isinstance(defense, GradientCompression)
        return RankedLaw(
            pruned=defense.dropped if always else 0.0,
            noised=0.0,
            noise_scale=0.0,
            chances=counted([float(always)] * steps * rounds),
            schedule=(float(always),) * steps,
        )


def _of_outpost(defense: Outpost, steps: int, rounds: int) -> RankedLaw:
    if defense.as_coded:
        raise UserError("transform 'ranked-mixture' knows outpost as described only: leave as_coded out")
    return RankedLaw(
        pruned=0.0 if defense.parts == "noise" else defense.pruned,
        noised=0.0 if defense.parts == "prune" else defense.noised,
        noise_scale=defense.noise_scale,
        chances=perturbed_steps(steps, rounds, defense.decay),
        schedule=schedule(steps, defense.decay),
    )


def schedule(steps: int, decay: float) -> tuple[float, ...]:
    """Return the chance of each step of a round: 1 / (1 + decay i) for step i, and 1 for the first one."""
    return (1.0, *(1 / (1 + decay * i) for i in range(2, steps + 1)))


def perturbed_steps(steps: int, rounds: int, decay: float) -> tuple[float, ...]:
    """Return the chances of 0, 1, ... perturbed steps in so many rounds of ``steps`` steps each; see ``schedule``."""
    return counted([*schedule(steps, decay)] * rounds)


def counted(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the chances of 0, 1, ... perturbed steps among independent ones with these chances."""
    chances = [1.0]
    for share in shares:
        chances = [
            (1 - share) * before + share * one_less
            for before, one_less in zip([*chances, 0.0], [0.0, *chances], strict=True)
        ]
    return tuple(chances)


PLUGINS = {
    "ranked-mixture": RankedMixture,
}
