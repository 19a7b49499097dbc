"""Learnt: the likelihood is a law of the defense, whichever it is, from what it makes of public images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from leaklab.attacks.adaptive.base import InferredGradient, Transform
from leaklab.attacks.adaptive.laws import Informed
from leaklab.attacks.learnt import laws
from leaklab.attacks.matching.distances import Distance
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records.errors import UserError


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


PLUGIN: type[Transform] = Learnt
