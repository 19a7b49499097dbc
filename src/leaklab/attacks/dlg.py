"""Deep leakage from gradients (DLG): match the gradient with dummy samples and dummy soft labels.

Source: "Deep Leakage from Gradients", algorithm 1; L-BFGS as the LRP paper states it (rate 1, history 100, 20 inner
iterations, 1000 outer ones).
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.base import Attack
from leaklab.attacks.lbfgs_inversion import LbfgsInversion
from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import SAMPLES, Requirements


@dataclass(frozen=True)
class DeepLeakage(LbfgsInversion):
    """Search images and label logits jointly, both from N(0, 1), by the squared L2 distance of the gradients.

    The free soft label can absorb a factor below 1 on the gradient, not one above.
    """

    name: ClassVar[str] = "dlg"
    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES)

    def labels(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Tensor | None:
        """Return None: soft labels are searched."""
        return None


PLUGIN: type[Attack] = DeepLeakage
