"""csDLG: match the direction of the client's update with dummy samples that are trained on; labels are known.

Source: OUTPOST paper, sections III and V (cosine distance; L-BFGS without total variation on the LeNet, signed Adam
with it on deep networks); "Inverting Gradients - How easy is it to break privacy in federated learning?", eq. (4) and
section 6.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import Tensor, nn

from leaklab.attacks.base import Attack, Case
from leaklab.attacks.cosine_inversion import CosineInversion, cosine_distance
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.labels import fixed_labels
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.matching import PROFILED_SIZE, Distance
from leaklab.attacks.priors import Box, WithPrior, total_variation
from leaklab.attacks.search import Matching, Objective, SearchResult, search
from leaklab.attacks.signed_adam import SignedAdamSettings, signed_adam
from leaklab.attacks.update_attack import UpdateAttack
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Flag, NonNegative, Rate
from leaklab.records.traits import LBFGS_STEP, AttackTraits


@dataclass(frozen=True)
class CosineDeepLeakage(UpdateAttack):
    """Minimise 1 - cos(update', update) + weight * TV over the images.

    Attributes:
        label_rule: ``known`` (granted by the threat model) or another one of ``labels.fixed_labels``.
        optimizer: ``lbfgs`` (unbounded, as in the source on the LeNet) or ``signed-adam``.
        total_variation: weight of the prior, relative to the matching loss of a zero update (1 for the cosine).
        history: pairs kept by L-BFGS.
        rate: of signed Adam, in units of a pixel; falls by ten after 3/8, 5/8 and 7/8 of the iterations.
        boxed: signed Adam keeps the pixels within the range that the threat model grants.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(
        evaluations=LBFGS_STEP, evaluations_when={"optimizer": {"signed-adam": 1}}, keeps_state=True
    )

    name: ClassVar[str] = "csdlg"
    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, *PRESCRIBED_STEPS),
        facts_when={"label_rule": KNOWN_LABELS, "boxed": {True: ("input_range",)}},
        facts_when_set={"samples": ("samples",)},
        several_batches=True,
        batch_statistics=True,
    )

    label_rule: str = "known"
    optimizer: Literal["lbfgs", "signed-adam"] = "lbfgs"
    total_variation: NonNegative = 0.0
    history: Count = 100
    rate: Rate = 0.1
    boxed: Flag = True

    def labels(self, observation: Observation, knowledge: Knowledge) -> Tensor | None:
        """Return the labels [T, n] by the rule."""
        return fixed_labels(self.name, self.label_rule, observation, knowledge)

    def distance(self) -> Distance:
        """Return 1 - cos."""
        return cosine_distance

    def gradient_inversion(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None,
    ) -> Inversion:
        """Return the objective of a single plain step; the cosine has a faster one on deep networks."""
        if distance is cosine_distance:
            return CosineInversion(network, observed, shape, num_classes, labels)
        return super().gradient_inversion(network, observed, shape, num_classes, distance, labels)

    def search(self, inversion: Inversion, case: Case) -> SearchResult:
        """Search from normal starts; losses are relative to that of a zero update."""
        size = PROFILED_SIZE if self.optimizer == "lbfgs" else 1.0
        matching: Matching = _Sized(inversion, size)
        nothing = matching.loss_of_nothing()
        objective: Objective = matching
        if self.total_variation > 0:
            objective = WithPrior(matching, total_variation, self.total_variation, inversion.shape, nothing)

        def start_of(row: int, number: int) -> Tensor:
            return inversion.normal_start(case.streams("start", case.observation.trials[row], number))

        if self.optimizer == "lbfgs":
            rules = self.within(case.budget.iterations, case.budget.restarts)
            found = search(objective, start_of, nothing, rules, LbfgsSettings(history=self.history))
            records = [replace(record, matching_loss=record.matching_loss / size) for record in found.records]
            return SearchResult(found.points, found.losses / size, records)
        box = Box(*case.knowledge.require("input_range", self.name)) if self.boxed else None
        settings = SignedAdamSettings(case.budget.iterations, case.budget.restarts, self.rate, box=box)
        return signed_adam(objective, start_of, len(case.observation.trials), settings)


class _Sized:
    """A matching loss whose value for a zero update is ``size``: the tolerances of L-BFGS are absolute."""

    def __init__(self, inversion: Inversion, size: float) -> None:
        self.inversion, self.size, self.unit = inversion, size, inversion.loss_of_nothing()

    def loss_of_nothing(self) -> Tensor:
        """Return the size of each trial, [T]."""
        return self.unit.new_full(self.unit.shape, self.size)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        loss, derivative = self.inversion(points, rows)
        factor = self.size / self.unit[rows]
        return loss * factor, derivative * factor[:, None]


PLUGIN: type[Attack] = CosineDeepLeakage
