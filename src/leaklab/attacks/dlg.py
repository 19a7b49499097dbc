"""Deep leakage from gradients (DLG): match the gradient with dummy samples and dummy soft labels.

Source: "Deep Leakage from Gradients", algorithm 1; L-BFGS as the LRP paper states it (rate 1, history 100, 20 inner
iterations, 1000 outer ones).
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.base import Attack, Budget, Reconstruction, Streams
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.lbfgs_inversion import invert, search_settings
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SAMPLES, Requirements


@dataclass(frozen=True)
class DeepLeakage:
    """Search images and label logits jointly, both from N(0, 1), by the squared L2 distance of the gradients.

    Images are on the [0, 1] scale and neither bounded nor normalised; the loss is not normalised. The free soft label
    can absorb a factor below 1 on the gradient, not one above.

    Attributes:
        history: pairs kept by L-BFGS.
        matched: a start ends below this loss, relative to the squared norm of the observed gradient.
        accepted: below this relative loss no further start is tried.
        patience: a start has stagnated after so many outer steps' worth of iterations ...
        improvement: ... in which its best loss fell by less than this fraction.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES)

    history: int = 100
    matched: float = 3e-9
    accepted: float = 2e-8
    patience: int = 5
    improvement: float = 0.1

    def reconstruct(
        self,
        observation: Observation,
        knowledge: Knowledge,
        budget: Budget,
        streams: Streams,
        distance: Distance | None = None,
    ) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``."""
        settings = search_settings(budget, self.matched, self.accepted, self.patience, self.improvement)
        lbfgs = LbfgsSettings(history=self.history)
        return invert("dlg", observation, knowledge, streams, distance or squared_l2, settings, lbfgs, labels=None)


PLUGIN: type[Attack] = DeepLeakage
