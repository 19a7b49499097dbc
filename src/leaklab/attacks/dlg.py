"""The common road of DLG and iDLG: L-BFGS on the matching loss from several normal starts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction, require_finite, require_gradient, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.rank_one_head import inversion_of
from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.restarts import StopRules, search
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.records.bounds import Count
from leaklab.records.traits import LBFGS_STEP, AttackTraits


@dataclass(frozen=True)
class LbfgsInversion(StopRules, ABC):
    """Search the samples whose gradients match; an attack says which labels are fixed.

    Images are on the [0, 1] scale and neither bounded nor normalised; the loss is not normalised.

    Attributes:
        name: the attack's, for messages.
        history: pairs kept by L-BFGS.
        dtype: ``observed`` (that of the update) or ``float64``, in which the search goes on where rounding ends it in
            float32.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=LBFGS_STEP, keeps_state=True, used=0.4)

    name: ClassVar[str]

    history: Count = 100
    dtype: Literal["observed", "float64"] = "observed"

    @abstractmethod
    def labels(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Tensor | None:
        """Return the fixed labels [T, B], or None to search label logits too."""

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial from ``normal_start`` draws named by trial and start; see ``Attack.reconstruct``.

        Raises:
            UserError: facts are withheld, the labels' rule does not fit, or the observation is not a gradient or not
                finite.
        """
        if self.dtype == "float64":
            case = replace(case, observation=case.observation.in_dtype(torch.float64))
        distance, trials = case.distance or squared_l2, case.observation.trials
        labels = self.labels(case.observation, case.knowledge, distance)
        inversion = _inversion(self.name, case, distance, labels)

        def start_of(row: int, number: int) -> Tensor:
            return inversion.normal_start(case.streams("start", trials[row], number))

        settings = self.within(case.budget.iterations, case.budget.restarts)
        lbfgs = LbfgsSettings(history=self.history)
        found = search(inversion, start_of, inversion.loss_of_nothing(), settings, lbfgs)
        return inversion.reconstruction(found, trials)


def _inversion(attack: str, case: Case, distance: Distance, labels: Tensor | None) -> Inversion:
    """Return the objective of ``reconstruct``."""
    require_gradient(case.observation, attack)
    require_finite(case.observation, attack)
    shape, classes = case.shape(attack), case.classes(attack)
    network = victim(case.observation, case.knowledge, attack)
    return inversion_of(network, list(case.observation.update.values()), shape, classes, distance, labels)


# Deep leakage from gradients (DLG): match the gradient with dummy samples and dummy soft labels.


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


# Improved DLG (iDLG): read the label off the last layer, then match the gradient over the image only.


@dataclass(frozen=True)
class ImprovedDeepLeakage(LbfgsInversion):
    """Infer the hard label, then search the image from N(0, 1) by the squared L2 distance of the gradients.

    The label survives any positive factor on the gradient; the image does not, as no soft label can absorb it.

    Attributes:
        label_rule: ``row-sum`` is the paper's rule; see ``labels.fixed_labels`` for it and the others.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=LBFGS_STEP, keeps_state=True, used=0.15)

    name: ClassVar[str] = "idlg"
    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS})

    label_rule: str = "bias"

    def labels(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Tensor | None:
        """Return the labels [T, B] by the rule; see ``labels.fixed_labels``."""
        return fixed_labels(self.name, self.label_rule, observation, knowledge, distance)


PLUGINS = {
    "dlg": DeepLeakage,
    "idlg": ImprovedDeepLeakage,
}
