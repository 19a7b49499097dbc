"""What transforms share whose distance is the likelihood of the defense's own law, read from the facts."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from leaklab.attacks.adaptive.inferred_gradient import InferredGradient
from leaklab.attacks.likelihood import OnlyWidened
from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import Requirements
from leaklab.records import plugins
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Lawful(InferredGradient):
    """Base of such transforms; a subclass gives ``law``, and in ``requirements.fits`` the defense.

    With several local steps the inferred gradient is their mean. That gradients differ from step to step is modelled
    where the law is a ``likelihood.StepLikelihood`` and the attack asks for it (``place: steps``). It goes with attack
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

    plugin: Lawful
    likelihood: OnlyWidened

    @property
    def distance(self) -> Distance:
        """The likelihood."""
        return self.likelihood

    def prepare(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Tensor]:
        """Return the gradient that the server infers, and ones; see ``Transform.prepare``."""
        return self.plugin.prepare(observation, knowledge)
