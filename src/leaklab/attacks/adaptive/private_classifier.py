"""Private classifier: the client shares its extractor alone, so the attacker puts a classifier of its own behind it."""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.matching.steps import mean_gradient
from leaklab.attacks.private_parts.classifier import Filling, completed
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Seed


@dataclass(frozen=True)
class PrivateClassifier(OfOneTrial):
    """Attack the extractor's gradient with a drawn or a fitted classifier; see ``private_layers``.

    Several steps count as one step with their weighted mean gradient, momentum and decay undone.

    Attributes:
        classifier: ``drawn`` from the law of first weights, as the papers' attacker does, or ``fitted`` to the gradient
            of one sample, which is exact without noise.
        draw: seed of what is drawn.
    """

    name: ClassVar[str] = "private-classifier"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"),
    )

    classifier: Filling = "fitted"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the extractor's gradient with a whole network.

        Raises:
            UserError: facts are withheld, or the classifier cannot be fitted.
        """
        gradient = mean_gradient(observation, knowledge, self.name)
        return completed(gradient, knowledge, self.classifier, self.draw, self.name), None


PLUGIN: type[Transform] = PrivateClassifier
