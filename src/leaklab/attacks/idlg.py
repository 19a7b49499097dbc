"""Improved DLG (iDLG): read the label off the last layer, then match the gradient over the image only.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6) and algorithm 1; L-BFGS as in ``dlg``.
"""

from dataclasses import dataclass
from typing import ClassVar

from leaklab.attacks.base import Attack, Budget, Reconstruction, Streams
from leaklab.attacks.fixed_labels import fixed_labels
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.lbfgs_inversion import invert, search_settings
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements


@dataclass(frozen=True)
class ImprovedDeepLeakage:
    """Infer the hard label, then search the image from N(0, 1) by the squared L2 distance of the gradients.

    The label survives any positive factor on the gradient; the image does not, as no soft label can absorb it.

    Attributes:
        label_rule: ``row-sum`` is the paper's rule; see ``fixed_labels`` for it and the others.
        history: pairs kept by L-BFGS.
        matched: a start ends below this loss, relative to the squared norm of the observed gradient.
        accepted: below this relative loss no further start is tried.
        patience: a start has stagnated after so many outer steps' worth of iterations ...
        improvement: ... in which its best loss fell by less than this fraction.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS})

    label_rule: str = "bias"
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
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: unknown rule, or a rule for single samples on batches.
        """
        settings = search_settings(budget, self.matched, self.accepted, self.patience, self.improvement)
        labels = fixed_labels("idlg", self.label_rule, observation, knowledge)
        lbfgs = LbfgsSettings(history=self.history)
        return invert("idlg", observation, knowledge, streams, distance or squared_l2, settings, lbfgs, labels)


PLUGIN: type[Attack] = ImprovedDeepLeakage
