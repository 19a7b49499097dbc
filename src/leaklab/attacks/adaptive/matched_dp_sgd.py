"""The likelihood of an update under DP-SGD, for one sample in each step.

Clipping per sample is then clipping, so the law is that of ``matched-noise`` with the deviation sigma C. Of a batch the
mean of clipped gradients is sent, which is no function of the mean gradient: that law is not matched here.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.adaptive.matched_noise import MatchedNoise
from leaklab.observations.base import Knowledge
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class MatchedDpSgd(MatchedNoise):
    """Match by the likelihood of the noise after the clip of a single sample; see ``MatchedNoise``.

    Attributes:
        sigma: standard deviation of the noise on the inferred gradient, the noise multiplier times the bound over the
            root of steps times rounds; None for what the defense says.
        bound: the clip's bound; None for what the defense says.
    """

    name: ClassVar[str] = "matched-dp-sgd"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*LAW_OF_DEFENSE, "batch_size"),
        facts_for_delta=PRESCRIBED_STEPS,
        fits=("dp-sgd",),
        largest_batch=1,
    )

    def noise_and_bound(self, defense: Any, knowledge: Knowledge) -> tuple[float | None, float | None]:
        """Return sigma C and C.

        Raises:
            UserError: a step had several samples.
        """
        batch_size = knowledge.require("batch_size", self.name)
        if batch_size != 1:
            raise UserError(
                f"transform '{self.name}' knows the law of one clipped sample, not of the mean of {batch_size}: set "
                "batch_size: 1"
            )
        return defense.sigma * defense.bound, defense.bound


PLUGIN: type[Transform] = MatchedDpSgd
