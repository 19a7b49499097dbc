"""The common road of DLG and csDLG on updates: dummies are trained as the client trained, and the updates matched."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Case, Reconstruction, victim
from leaklab.attacks.labels.rules import check_count, fixed_labels
from leaklab.attacks.matching.cosine import CosineInversion, cosine_distance
from leaklab.attacks.matching.distances import PROFILED_SIZE, Distance, squared_l2
from leaklab.attacks.matching.inversion import Inversion, UpdateInversion
from leaklab.attacks.matching.steps import batch_order, is_gradient, steps_of
from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.priors import Box, WithPrior, total_variation
from leaklab.attacks.search.restarts import Matching, Objective, SearchResult, StopRules, search
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.models.normalisation import with_batch_statistics
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, Flag, Natural, NonNegative, Rate
from leaklab.records.errors import UserError
from leaklab.records.traits import LBFGS_STEP, AttackTraits


@dataclass(frozen=True)
class UpdateAttack(StopRules, ABC):
    """Search the samples on which simulated local training sends the observed update.

    A gradient is the update over minus the sum of the rates. Images are on the [0, 1] scale; each start is a draw from
    N(0, 1) on the scale of the network's input.

    Attributes:
        name: the attack's, for messages.
        samples: of the client's round, in the order in which its steps use them; 0 for one batch, which all steps
            repeat.
        dummy: state of the server's network while it matches: ``evaluation`` (the running statistics that were sent),
            ``training`` (those of the dummies) or ``client`` (whichever the client's layers were in).
        dtype: ``observed`` (that of the update) or ``float64``.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=LBFGS_STEP, keeps_state=True, used=0.3, unrolls=True)

    name: ClassVar[str]

    samples: Natural = 0
    dummy: Literal["evaluation", "training", "client"] = "evaluation"
    dtype: Literal["observed", "float64"] = "observed"

    @abstractmethod
    def labels(self, observation: Observation, knowledge: Knowledge) -> Tensor | None:
        """Return the fixed labels [T, n], or None to search label logits too."""

    @abstractmethod
    def distance(self) -> Distance:
        """Return what is matched unless a transform says otherwise."""

    @abstractmethod
    def search(self, inversion: Inversion, case: Case) -> SearchResult:
        """Return the best point of every start."""

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: facts are withheld, samples that do not fill the steps, or an update that is not finite.
        """
        if self.dtype == "float64":
            case = replace(case, observation=case.observation.in_dtype(torch.float64))
        observation = case.observation.as_gradient(case.knowledge, self.name)
        if not all(bool(value.isfinite().all()) for value in observation.update.values()):
            raise UserError(f"attack '{self.name}': the observed updates are not finite: capture them at a lower rate")
        inversion = self.inversion(observation, case.knowledge, case.distance or self.distance())
        found = self.search(inversion, replace(case, observation=observation))
        return inversion.reconstruction(found, observation.trials)

    def inversion(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Inversion:
        """Return the objective; see ``reconstruct``."""
        batch = int(knowledge.require("batch_size", self.name))
        rates = knowledge.assumed_rates(self.name)
        shape = (self.samples or batch, *knowledge.require("input_shape", self.name))
        labels = self.labels(observation, knowledge)
        if labels is not None:
            check_count(self.name, labels, shape[0])
        network = self.network(observation, knowledge)
        steps = steps_of(knowledge, batch_order(shape[0], batch, len(rates)), self.name)
        classes, observed = int(knowledge.require("num_classes", self.name)), list(observation.update.values())
        if is_gradient(rates, steps):
            return self.gradient_inversion(network, observed, shape, classes, distance, labels)
        prescribed = torch.tensor(rates, dtype=torch.float64)
        return UpdateInversion(network, observed, shape, classes, distance, labels, prescribed, steps)

    def gradient_inversion(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None,
    ) -> Inversion:
        """Return the objective of a single plain step, whose update is a gradient."""
        return Inversion(network, observed, shape, num_classes, distance, labels)

    def network(self, observation: Observation, knowledge: Knowledge) -> nn.Sequential:
        """Return the victim in the state in which the server matches."""
        network = victim(observation, knowledge, self.name)
        state = {"client": {"train": "training", "eval": "evaluation"}[observation.mode]}.get(self.dummy, self.dummy)
        return with_batch_statistics(network) if state == "training" else network.eval()


# csDLG: match the direction of the client's update with dummy samples that are trained on; labels are known.


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
        evaluations=LBFGS_STEP,
        evaluations_when={"optimizer": {"signed-adam": 1}},
        keeps_state=True,
        used=0.3,
        unrolls=True,
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


# DLG on updates: match the client's update with dummy samples and dummy soft labels that are trained on.


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


PLUGINS = {
    "csdlg": CosineDeepLeakage,
    "delta-dlg": DeltaDeepLeakage,
}
