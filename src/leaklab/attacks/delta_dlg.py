"""DLG on updates: match the client's update with dummy samples and dummy soft labels that are trained on.

Source: OUTPOST paper, sections III and V (delta matching; L-BFGS of rate 1, 3000 iterations); "Deep Leakage from
Gradients", algorithm 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from leaklab.attacks.base import Attack, Case
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.attacks.search import SearchResult, search
from leaklab.attacks.update_attack import UpdateAttack
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count


@dataclass(frozen=True)
class DeltaDeepLeakage(UpdateAttack):
    """Search images and label logits jointly by the squared L2 distance of the updates.

    Attributes:
        history: pairs kept by L-BFGS.
    """

    name: ClassVar[str] = "delta-dlg"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS),
        facts_when_set={"samples": ("samples",)},
        several_batches=True,
        batch_statistics=True,
    )

    history: Count = 100

    def labels(self, observation: Observation, knowledge: Knowledge) -> Tensor | None:
        """Return None: soft labels are searched."""
        return None

    def distance(self) -> Distance:
        """Return the squared L2 distance."""
        return squared_l2

    def search(self, inversion: Inversion, case: Case) -> SearchResult:
        """Search by L-BFGS; a further start is tried while the best loss is not accepted."""

        def start_of(row: int, number: int) -> Tensor:
            return inversion.normal_start(case.streams("start", case.observation.trials[row], number))

        rules = self.within(case.budget.iterations, case.budget.restarts)
        return search(inversion, start_of, inversion.loss_of_nothing(), rules, LbfgsSettings(history=self.history))


PLUGIN: type[Attack] = DeltaDeepLeakage
