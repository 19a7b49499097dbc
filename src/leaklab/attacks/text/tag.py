"""TAG as printed: the server takes the update, divided by the rate that it assumes, for the gradient.

Source: J. Deng et al., "TAG: gradient attack on transformer-based language models", 2021; used in LRP table 7.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.text.base import TextCase, TextMatching, TextReconstruction
from leaklab.attacks.text.observed import match
from leaklab.observations.declared import PRESCRIBED_STEPS, SENTENCES, Requirements
from leaklab.records.bounds import NonNegative, Rate


@dataclass(frozen=True)
class TagAttack:
    """Match norms and absolute values, tensor by tensor; it believes in the gradient's scale.

    Attributes:
        squared: square the norms, as some later implementations do.
        rate: AdamW's first rate in standard deviations of the word table (see ``base.TextMatching``).
        decay: AdamW's weight decay.
    """

    requirements: ClassVar[Requirements] = Requirements(
        facts=SENTENCES, largest_batch=1, facts_for_delta=PRESCRIBED_STEPS
    )

    squared: bool = False
    rate: Rate = 0.5
    decay: NonNegative = 0.0

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct every sentence; see ``base.TextAttack``."""
        settings = TextMatching("tag-squared" if self.squared else "tag", rate=self.rate, decay=self.decay)
        return match(settings, case, case.observation.as_gradient(case.knowledge, "tag"))


# TAG for an attacker who knows that the rate is perturbed: the scale of the gradient is left free.


@dataclass(frozen=True)
class ProfiledTagAttack:
    """TAG at the scale that fits best (``distances.ProfiledTag``); no rate is needed.

    Attributes:
        bag: read only tokens whose row of the word table has a gradient.
        rate: AdamW's first rate in standard deviations of the word table.
        decay: AdamW's weight decay.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES, largest_batch=1)

    bag: bool = False
    rate: Rate = 0.5
    decay: NonNegative = 0.0

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct every sentence; see ``base.TextAttack``."""
        settings = TextMatching("profiled-tag", bag=self.bag, rate=self.rate, decay=self.decay)
        return match(settings, case, case.observation.as_direction())


# The continuous part of LAMP: it compares directions, tensor by tensor, so it never had a scale to lose.


@dataclass(frozen=True)
class MeanCosineAttack:
    """Match the mean cosine over tensors; no rate is needed.

    Attributes:
        bag: read only tokens whose row of the word table has a gradient.
        norm_weight: of the prior on the embeddings' mean norm; LAMP uses 1.
        rate: AdamW's first rate in standard deviations of the word table.
        decay: AdamW's weight decay.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES, largest_batch=1)

    bag: bool = False
    norm_weight: NonNegative = 1.0
    rate: Rate = 0.5
    decay: NonNegative = 0.0

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct every sentence; see ``base.TextAttack``."""
        settings = TextMatching("mean-cosine", self.bag, self.norm_weight, rate=self.rate, decay=self.decay)
        return match(settings, case, case.observation.as_direction())


PLUGINS = {
    "mean-cosine": MeanCosineAttack,
    "profiled-tag": ProfiledTagAttack,
    "tag": TagAttack,
}
