"""Clip emulation: the dummy gradient is clipped as the client's was, before they are compared.

Source: the transform for gradient clipping in "Auditing Privacy Defenses in Federated Learning via Generative
Gradient Leakage" (GGL), which estimates the bound by the norm of the observed gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import InferredGradient
from leaklab.attacks.matching.distances import Distance, ScaleFree, clipped, squared_l2, squared_norm
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records import plugins
from leaklab.records.bounds import Positive
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class ClipEmulation(InferredGradient):
    """Clip the dummy gradient to the norm of the observed one, then match by squared L2.

    Exact against clipping: a longer dummy gradient is compared by its direction, 2 S^2 (1 - cos), a shorter one in
    full. Against clipping with noise the estimated bound is too large, about sqrt(S^2 + n sigma^2) for n entries, which
    is mostly noise on large networks; ``matched-noise`` with its known bound is the stronger attacker there.
    """

    name: ClassVar[str] = "clip-emulation"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-clipping", "clipping-noise")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 after clipping."""
        return after_clipping


@ScaleFree
def after_clipping(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||g' min(1, S / ||g'||) - o||^2 with S = ||o|| of each trial; see ``matching.Distance``."""
    shortened, pull_back = clipped(gradients, squared_norm(observed).sqrt())
    residuals = [gradient - target for gradient, target in zip(shortened, observed, strict=True)]
    value = squared_norm(residuals)
    return value, pull_back(residuals), torch.full_like(value, 2.0)


# Prune emulation: the dummy gradient is compressed as the client's was, before they are compared.


@dataclass(frozen=True)
class PruneEmulation(InferredGradient):
    """Prune each tensor of the dummy gradient to the share of zeros that was observed, then match by squared L2.

    Unlike ``support-only`` it also uses that the dropped entries were small. The price is a loss that jumps where an
    entry passes the threshold: fit for searches without derivatives; for L-BFGS ``support-only`` is the safer choice.
    """

    name: ClassVar[str] = "prune-emulation"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-compression")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 after pruning."""
        return after_pruning


def after_pruning(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return ||P(g') - o||^2, where P drops as many entries of each tensor as are zero in o.

    The derivative takes the choice of the entries for constant, as it is almost everywhere; see ``matching.Distance``.
    """
    kept = [_largest(gradient, target) for gradient, target in zip(gradients, observed, strict=True)]
    triples = zip(gradients, observed, kept, strict=True)
    residuals = [torch.where(keep, gradient, 0.0) - target for gradient, target, keep in triples]
    value = squared_norm(residuals)
    used = [torch.where(keep, residual, 0.0) for residual, keep in zip(residuals, kept, strict=True)]
    return value, used, torch.full_like(value, 2.0)


def _largest(gradient: Tensor, observed: Tensor) -> Tensor:
    """Return where the gradient survives in each trial: as many entries as are non-zero in ``observed``, more at ties.

    The rule is the client's: what is strictly smaller than the smallest survivor is dropped.
    """
    sizes = gradient.abs().flatten(1)
    zeros = (observed == 0).flatten(1).sum(1, keepdim=True)
    last = sizes.shape[1] - 1
    threshold = sizes.sort(dim=1).values.gather(1, zeros.clamp(max=last))
    return ((sizes >= threshold) & (zeros <= last)).view_as(gradient)


# Support only: compression says which entries it dropped, so nothing is asked of them.


@dataclass(frozen=True)
class SupportOnly(InferredGradient):
    """Match only the entries that were observed non-zero, by squared L2.

    Exact for one local step. Over several, an entry that was dropped in some of them is matched as if in none.

    The cosine on the same entries would match as well, but it gives away the length of the gradient, which
    compression does not hide: with soft labels (DLG) it then fails on starts where L2 succeeds.
    """

    name: ClassVar[str] = "support-only"
    requirements: ClassVar[Requirements] = Requirements(
        facts_for_delta=PRESCRIBED_STEPS, fits=("none", "gradient-compression")
    )

    @property
    def distance(self) -> Distance:
        """Squared L2 on the observed entries."""
        return on_support


def on_support(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return the sum of (g' - o)^2 over the entries with o != 0; see ``matching.Distance``."""
    pairs = zip(gradients, observed, strict=True)
    return squared_l2([torch.where(target != 0, gradient, 0.0) for gradient, target in pairs], observed)


# OUTPOST's support: what its noise alone makes is taken for the zeros that it covers.


@dataclass(frozen=True)
class OutpostSupport(InferredGradient):
    """Set what may be noise alone to zero; the attack keeps its own distance. For one local step.

    Attributes:
        deviations: entries below so many standard deviations of the noise are zeros; 5 lets one of 1.7 million pass.
    """

    name: ClassVar[str] = "outpost-support"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*LAW_OF_DEFENSE, "weights"), facts_for_delta=PRESCRIBED_STEPS, fits=("outpost",)
    )

    deviations: Positive = 5.0

    @property
    def distance(self) -> None:
        """None: the attack's own."""
        return

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the inferred gradient without entries that noise alone explains, and ones.

        Raises:
            UserError: a fact is withheld, there were several local steps, or OUTPOST only prunes.
        """
        gradient, ones = super().prepare(observation, knowledge)
        declared = knowledge.require("defense", self.name)
        defense = plugins.load("defenses", declared["name"], declared["settings"])
        if knowledge.require("local_steps", self.name) != 1:
            raise UserError(f"transform '{self.name}' knows the law of one step: set local_steps: 1")
        if defense.parts == "prune":
            raise UserError(f"transform '{self.name}': there is no noise beside zeros: set transform: none")
        kept = {}
        for name, value in gradient.update.items():
            risk = gradient.weights[name].var(correction=0).clamp(max=1)
            bound = self.deviations * defense.noise_scale * risk.to(value)
            kept[name] = torch.where(value.abs() < bound, torch.zeros_like(value), value)
        return replace(gradient, update=kept), ones


PLUGINS = {
    "clip-emulation": ClipEmulation,
    "outpost-support": OutpostSupport,
    "prune-emulation": PruneEmulation,
    "support-only": SupportOnly,
}
