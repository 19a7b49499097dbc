"""The common road of DLG and csDLG on updates: dummies are trained as the client trained, and the updates matched."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Case, Reconstruction, victim
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.labels import check_count
from leaklab.attacks.matching import Distance
from leaklab.attacks.search import SearchResult, StopRules
from leaklab.attacks.simulation import batch_order, is_gradient, steps_of
from leaklab.attacks.update_inversion import UpdateInversion
from leaklab.models.normalisation import with_batch_statistics
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.bounds import Natural
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

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=LBFGS_STEP, keeps_state=True)

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
