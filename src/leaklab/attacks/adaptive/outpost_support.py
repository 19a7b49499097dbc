"""OUTPOST's support: what its noise alone makes is taken for the zeros that it covers.

In a perturbed step OUTPOST prunes all but the largest entries and puts noise on these and on as many zeros. The law of
that noise is public: its standard deviation is the scale times the variance of each tensor of the weights that were
sent. For usual first weights that is far below the entries that are left, so those stand out, and the rest is
pruned for whoever knows the law.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records import plugins
from leaklab.records.bounds import Positive
from leaklab.records.errors import UserError


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


PLUGIN: type[Transform] = OutpostSupport
