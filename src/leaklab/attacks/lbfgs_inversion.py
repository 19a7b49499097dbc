"""The common road of DLG and iDLG: L-BFGS on the matching loss from several normal starts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction, require_finite, require_gradient, victim
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.attacks.rank_one_head import inversion_of
from leaklab.attacks.search import StopRules, search
from leaklab.observations.base import Knowledge, Observation
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

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=LBFGS_STEP, keeps_state=True)

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
