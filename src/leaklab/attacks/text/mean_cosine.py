"""The continuous part of LAMP: it compares directions, tensor by tensor, so it never had a scale to lose.

Source: M. Balunovic et al., "LAMP: extracting text from gradients with language model priors", 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.text.base import TextAttack, TextCase
from leaklab.attacks.text.matching_attack import TextMatching, TextReconstruction
from leaklab.attacks.text.observed import match
from leaklab.observations.declared import SENTENCES, Requirements
from leaklab.records.bounds import NonNegative, Rate


@dataclass(frozen=True)
class MeanCosineAttack:
    """Match the mean cosine over tensors; no rate is needed.

    Attributes:
        bag: read only tokens whose row of the word table has a gradient.
        norm_weight: of the prior on the embeddings' mean norm; LAMP uses 1.
        rate: AdamW's first rate in standard deviations of the word table.
        decay: AdamW's weight decay.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SENTENCES)

    bag: bool = False
    norm_weight: NonNegative = 1.0
    rate: Rate = 0.5
    decay: NonNegative = 0.0

    def reconstruct(self, case: TextCase) -> TextReconstruction:
        """Reconstruct every sentence; see ``base.TextAttack``."""
        settings = TextMatching("mean-cosine", self.bag, self.norm_weight, rate=self.rate, decay=self.decay)
        return match(settings, case, case.observation.as_direction())


PLUGIN: type[TextAttack] = MeanCosineAttack
