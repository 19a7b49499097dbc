"""Improved DLG (iDLG): read the label off the last layer, then match the gradient over the image only.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6) and algorithm 1; L-BFGS as in ``dlg``.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.base import Attack
from leaklab.attacks.labels import fixed_labels
from leaklab.attacks.lbfgs_inversion import LbfgsInversion
from leaklab.attacks.matching import Distance
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements


@dataclass(frozen=True)
class ImprovedDeepLeakage(LbfgsInversion):
    """Infer the hard label, then search the image from N(0, 1) by the squared L2 distance of the gradients.

    The label survives any positive factor on the gradient; the image does not, as no soft label can absorb it.

    Attributes:
        label_rule: ``row-sum`` is the paper's rule; see ``labels.fixed_labels`` for it and the others.
    """

    name: ClassVar[str] = "idlg"
    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS})

    label_rule: str = "bias"

    def labels(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Tensor | None:
        """Return the labels [T, B] by the rule; see ``labels.fixed_labels``."""
        return fixed_labels(self.name, self.label_rule, observation, knowledge, distance)


PLUGIN: type[Attack] = ImprovedDeepLeakage
