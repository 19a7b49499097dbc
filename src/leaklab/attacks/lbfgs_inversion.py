"""The common road of DLG and iDLG: L-BFGS on the matching loss from several normal starts."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from leaklab.attacks.base import Budget, Reconstruction, Streams, victim
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.matching import Distance, squared_l2
from leaklab.attacks.rank_one_head import inversion_of
from leaklab.attacks.search import SearchResult, StopRules, search
from leaklab.attacks.starts import numbered
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError


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

    name: ClassVar[str]

    history: Count = 100
    dtype: Literal["observed", "float64"] = "observed"

    @abstractmethod
    def labels(self, observation: Observation, knowledge: Knowledge, distance: Distance) -> Tensor | None:
        """Return the fixed labels [T, B], or None to search label logits too."""

    def reconstruct(
        self,
        observation: Observation,
        knowledge: Knowledge,
        budget: Budget,
        streams: Streams,
        distance: Distance | None = None,
    ) -> Reconstruction:
        """Reconstruct every trial from ``normal_start`` draws named by trial and start; see ``Attack.reconstruct``.

        Raises:
            UserError: facts are withheld, the labels' rule does not fit, or the observation is not a gradient or not
                finite.
        """
        if self.dtype == "float64":
            observation = observation.in_dtype(torch.float64)
        distance = distance or squared_l2
        labels = self.labels(observation, knowledge, distance)
        inversion = _inversion(self.name, observation, knowledge, distance, labels)

        def start_of(row: int, number: int) -> Tensor:
            return inversion.normal_start(streams("start", observation.trials[row], number))

        settings = self.within(budget.iterations, budget.restarts)
        lbfgs = LbfgsSettings(history=self.history)
        found = search(inversion, start_of, inversion.loss_of_nothing(), settings, lbfgs)
        return _reconstruction(inversion, found, observation.trials)


def _reconstruction(inversion: Inversion, found: SearchResult, trials: tuple[int, ...]) -> Reconstruction:
    rows = torch.arange(len(trials), device=found.points.device)
    chosen = inversion.unpack(found.points[rows, found.chosen()], rows)
    candidates = [inversion.unpack(points, rows).images for points in found.points.unbind(1)]
    return Reconstruction(
        images=chosen.images,
        labels=chosen.targets.argmax(-1),
        candidates=torch.stack(candidates, 1),
        candidate_losses=found.losses,
        starts=numbered(found.records, trials),
        scale=torch.ones(len(rows), dtype=torch.float64),
    )


def _inversion(
    attack: str, observation: Observation, knowledge: Knowledge, distance: Distance, labels: Tensor | None
) -> Inversion:
    """Return the objective of ``invert``."""
    if observation.kind != "gradient":
        raise UserError(f"attack '{attack}' matches gradients: choose a transform that turns the delta into one")
    observed = list(observation.update.values())
    if not all(bool(value.isfinite().all()) for value in observed):
        raise UserError(f"attack '{attack}': the observed gradients are not finite: capture them again at a lower rate")
    shape = (int(knowledge.require("batch_size", attack)), *knowledge.require("input_shape", attack))
    classes = int(knowledge.require("num_classes", attack))
    return inversion_of(victim(observation, knowledge, attack), observed, shape, classes, distance, labels)
