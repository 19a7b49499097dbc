"""TAG for an attacker who knows that the rate is perturbed: the scale of the gradient is left free."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.text.base import TextAttack, TextCase
from leaklab.attacks.text.matching_attack import TextMatching, TextReconstruction
from leaklab.attacks.text.observed import match
from leaklab.observations.declared import SENTENCES, Requirements
from leaklab.records.bounds import NonNegative, Rate


@dataclass(frozen=True)
class ProfiledTagAttack:
    """TAG at the scale that fits best (``distances.ProfiledTag``); no rate is needed.

    Attributes:
        bag: read only tokens whose row of the word table has a gradient.
        rate: AdamW's first rate in standard deviations of the word table.
        decay: AdamW's weight decay.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES)

    bag: bool = False
    rate: Rate = 0.5
    decay: NonNegative = 0.0

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct every sentence; see ``base.TextAttack``."""
        settings = TextMatching("profiled-tag", bag=self.bag, rate=self.rate, decay=self.decay)
        return match(settings, case, case.observation.as_direction())


PLUGIN: type[TextAttack] = ProfiledTagAttack
