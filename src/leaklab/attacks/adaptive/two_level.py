"""Two levels: the attack that HyperFL tailors to itself, which finds embedding and generated weights before images.

Source: HyperFL, equations (9) and (10). The lower level (``two_level_loss``) is searched by Adam from a drawn start.
The attack behind this transform is the upper level: on the gradient that was found, at the weights of the embedding.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leaklab.attacks.adaptive.base import OfOneTrial, Transform
from leaklab.attacks.hyper_observed import message_of, of_extractor
from leaklab.attacks.matching import Distance
from leaklab.attacks.private_layers import Filling, completed
from leaklab.attacks.signed_adam import SignedAdamSettings, signed_adam
from leaklab.attacks.two_level_loss import LowerLevel
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Rate, Seed
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


@dataclass(frozen=True)
class TwoLevel(OfOneTrial):
    """Solve the lower level for embedding and generated weights, then leave the images to the attack.

    Attributes:
        iterations: of Adam in the lower level.
        rate: of Adam, in units of the unknowns (a gradient's entries by their root mean square, an embedding's by its
            deviation); falls by ten after 3/8, 5/8 and 7/8 of the iterations.
        classifier: of the upper level; see ``private_layers``.
        draw: seed of the start and of a drawn classifier.
    """

    name: ClassVar[str] = "two-level"
    requirements: ClassVar[Requirements] = Requirements(facts=(*SAMPLES, *PRESCRIBED_STEPS, "labels"))

    iterations: Count = 1000
    rate: Rate = 0.1
    classifier: Filling = "drawn"
    draw: Seed = 0

    def of_trial(self, observation: Observation, knowledge: Knowledge) -> tuple[Observation, Distance | None]:
        """Return the gradient that was found, at the weights that were found.

        Raises:
            UserError: it is no message of linear heads, facts are withheld, or the lower level diverged.
        """
        sent, gradient = message_of(observation, knowledge, self.name)
        if not gradient.c.any():
            raise UserError(f"transform '{self.name}': the update is zero, so there is nothing to match: capture again")
        lower = LowerLevel(sent, [gradient])
        draws = stream(self.draw, "in place of an embedding", observation.trials[0])
        embedding = draws.normal(sent.w.shape[1])
        start = torch.cat([draws.normal(len(sent.c)), embedding]).to(sent.c)
        settings = SignedAdamSettings(self.iterations, 1, self.rate, box=None, signed=False)
        found = signed_adam(lower, lambda row, number: start, 1, settings)
        if not found.losses.isfinite().all():
            raise UserError(f"transform '{self.name}' diverged: lower its rate")
        slopes, embeddings = lower.unpack(found.points[:, 0], torch.zeros(1, dtype=torch.int64, device=sent.c.device))
        weights = sent.generated(sent.hidden(embeddings[0]))
        seen = of_extractor(observation, sent, weights, slopes[0])
        return completed(seen, knowledge, self.classifier, self.draw, self.name), None


PLUGIN: type[Transform] = TwoLevel
