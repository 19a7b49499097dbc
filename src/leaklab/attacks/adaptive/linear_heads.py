"""Linear heads: what a hypernetwork's clients send holds the extractor's gradient and weights, exactly.

See ``hyper_observed``. Neither embedding nor classifier is asked for.

Source: not in the HyperFL paper; it follows from its section 3.2 (linear heads), and contradicts section 4.1.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.hyper_observed import extractor
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import Filling, completed
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Seed


@dataclass(frozen=True)
class LinearHeads(OfOneTrial):
    """Read the extractor's gradient and weights off the message, and put a classifier behind it.

    Attributes:
        classifier: see ``private_layers``; ``fitted`` takes one sample, and is exact for one step.
        draw: seed of what is drawn.
    """

    name: ClassVar[str] = "linear-heads"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"),
    )

    classifier: Filling = "fitted"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient at its weights.

        Raises:
            UserError: it is no message of linear heads, facts are withheld, the update is zero, or the classifier
                cannot be fitted.
        """
        read = extractor(observation, knowledge, self.name)
        return completed(read, knowledge, self.classifier, self.draw, self.name), None


PLUGIN: type[Transform] = LinearHeads
