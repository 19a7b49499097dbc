"""Sliced mixture: the likelihood of an update whose slices GradDefense perturbed or left as they are.

Source: defense, "Protect Privacy from Gradient Leakage Attack in Federated Learning"; the attacker is ours.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.laws import Lawful
from leaklab.attacks.learnt.runs import SlicedLaw
from leaklab.defenses.grad_defense import GradDefense
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements


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


PLUGIN: type[Transform] = SlicedMixture
