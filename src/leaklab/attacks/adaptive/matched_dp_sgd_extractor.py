"""The likelihood of an extractor's update under DP-SGD, where the client keeps its classifier to itself.

PPSGD and CENTAUR clip and noise what they share, the extractor alone. A classifier fitted to such a gradient fits the
noise, so the attacker draws one by the law of first weights and matches by the noise's law. How much that can tell at
all is bounded: with one sample in a step, the laws of the updates of any two images are Gaussians whose means are at
most twice the bound apart, so their total variation is at most 2 Phi(1 / multiplier) - 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.adaptive.matched_dp_sgd import MatchedDpSgd
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import completed
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import LAW_OF_DEFENSE, PRESCRIBED_STEPS, Requirements
from leaklab.records.bounds import Seed


@dataclass(frozen=True)
class MatchedDpSgdExtractor(OfOneTrial):
    """Match an extractor's gradient by the noise's law, behind a drawn classifier; see ``MatchedDpSgd``.

    Attributes:
        draw: seed of the classifier that is drawn; see ``private_layers``.
    """

    name: ClassVar[str] = "matched-dp-sgd-extractor"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*LAW_OF_DEFENSE, "batch_size"),
        facts_for_delta=PRESCRIBED_STEPS,
        fits=("dp-sgd",),
        largest_batch=1,
    )

    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient with a whole network, and the likelihood of its noise.

        Raises:
            UserError: facts are withheld, or a step had several samples.
        """
        gradient = observation.as_gradient(knowledge, self.name)
        whole = completed(gradient, knowledge, "drawn", self.draw, self.name)
        return whole, MatchedDpSgd().informed(knowledge).distance


PLUGIN: type[Transform] = MatchedDpSgdExtractor
