"""Attackers of the house that facts about a guest's defense call for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from leaklab.attacks.adaptive.emulation import after_clipping, on_support
from leaklab.attacks.adaptive.laws import LaplaceLaw
from leaklab.attacks.adaptive.noise import NormalLikelihood
from leaklab.attacks.adaptive.outpost import MOST_STEPS, RankedLaw
from leaklab.attacks.analytic import AnalyticReconstruction as Analytic
from leaklab.attacks.analytic import SupportQuotient
from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.exact_batch import ExactBatch
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.maps import Fact

SMALLEST, LARGEST = "smallest of each tensor", "largest of each tensor"


@dataclass(frozen=True)
class MeasuredRanks(RankedLaw):
    """The law of ranks with the deviations that were measured in place of those that weights give.

    Attributes:
        sigmas: standard deviation of the noise in each tensor by name; one that is missing gets none.
    """

    sigmas: Mapping[str, float] = field(default_factory=dict)

    def _deviations(self, weights: Mapping[str, Tensor]) -> list[float]:
        return [self.sigmas.get(name, 0.0) for name in weights]


def by_rule(exposure: Exposure, facts: Sequence[Fact]) -> Iterator[Attacker]:
    """Yield the attackers of the house that facts call for; one who asks for nothing but the direction always comes.

    Args:
        exposure: who is attacked; a network's first layer may give its input away.
        facts: what the defense does.
    """
    found = {fact.name: fact.value for fact in facts}
    search, steps = AnnealedMap(), exposure.arena.file.steps
    noise, clip, zeros = found.get("noise"), found.get("clips"), found.get("zeros")
    if exposure.stage.starts_affine():
        pruned = bool(zeros and zeros["rest"] == "exact" and not noise)
        yield _of_first_layer(exposure.arena.samples, unlabelled="hidden" in found or pruned)
    if noise and isinstance(noise["sigma"], float):
        yield from _of_noise(noise, clip, steps)
    elif clip and clip["scope"] == "whole" and not noise:
        yield Attacker("rule", "clip-emulation", search, after_clipping)
    if zeros and zeros["rest"] == "exact" and not noise:
        yield Attacker("rule", "support-only", search, on_support)
    if zeros and zeros.get("chosen") == SMALLEST and zeros["rest"] == "exact":
        yield from _of_ranks(zeros, noise, steps)
    yield Attacker("rule", "profiled-scale", search, profiled_scale)


def _of_first_layer(samples: int, unlabelled: bool) -> Attacker:
    """Return who reads what a first affine layer was given; no label is read where none is sent or it is pruned."""
    if samples > 1:
        return Attacker("rule", "peel", ExactBatch("peel"))
    if unlabelled:
        return Attacker("rule", "support-quotient", SupportQuotient())
    return Attacker("rule", "analytic", Analytic())


def _of_noise(noise: Mapping[str, Any], clip: Mapping[str, Any] | None, steps: int) -> Iterator[Attacker]:
    """Yield who knows noise of one deviation, and a clip before it; the mean of steps has less of it."""
    bound = clip["bound"] if clip and clip["scope"] == "whole" else None
    if noise["law"] == "Laplace" and bound is None and steps == 1:
        yield Attacker("rule", "matched-laplace", AnnealedLikelihood(), LaplaceLaw(noise["sigma"] / 2**0.5))
    elif noise["law"] in ("normal", "uniform") or (noise["law"] == "Laplace" and steps > 1):
        name = "matched-noise" + (
            "" if noise["law"] == "normal" else f", a normal law in place of a {noise['law']} one"
        )
        yield Attacker("rule", name, AnnealedMap(), NormalLikelihood(noise["sigma"] / steps**0.5, bound))


def _of_ranks(zeros: Mapping[str, Any], noise: Mapping[str, Any] | None, steps: int) -> Iterator[Attacker]:
    """Yield who knows that the smallest entries are zero, and noise that the largest ones carry, in each step."""
    search, schedule = AnnealedLikelihood(place="steps" if steps > 1 else "sent"), (1.0,) * steps
    if steps > MOST_STEPS:
        return
    if noise is None:
        law = RankedLaw(zeros["share"], 0.0, 0.0, schedule=schedule)
        yield Attacker("rule", "ranked-mixture", search, law)
    elif noise.get("chosen") == LARGEST and noise["law"] == "normal":
        law = MeasuredRanks(zeros["share"], noise["share"], 0.0, schedule=schedule, sigmas=noise["sigma"])
        yield Attacker("rule", "ranked-mixture", search, law)
