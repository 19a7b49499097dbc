"""The common road of DLG and iDLG: L-BFGS on the matching loss from several normal starts."""

from dataclasses import replace

import torch
from torch import Tensor

from leaklab.attacks.base import Budget, Reconstruction, Streams, victim
from leaklab.attacks.inversion import Inversion
from leaklab.attacks.lbfgs import LbfgsSettings
from leaklab.attacks.matching import Distance
from leaklab.attacks.search import SearchSettings, search
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


def invert(
    attack: str,
    observation: Observation,
    knowledge: Knowledge,
    streams: Streams,
    distance: Distance,
    settings: SearchSettings,
    lbfgs: LbfgsSettings,
    labels: Tensor | None,
) -> Reconstruction:
    """Search the samples whose gradients match; unknowns start at N(0, 1) draws named by trial and start.

    Args:
        attack: its name, for messages.
        observation: kind gradient.
        knowledge: must grant architecture, input_shape, num_classes, batch_size.
        streams: see ``Attack.reconstruct``.
        distance: the matching loss.
        settings: starts and stop rules; their losses are relative to the loss of an all-zero gradient.
        lbfgs: the optimiser.
        labels: [T, B] fixed labels, or None to search label logits too.

    Raises:
        UserError: facts are withheld, or the observation is not a gradient or not finite.
    """
    inversion = _inversion(attack, observation, knowledge, distance, labels)
    like = inversion.observed[0]

    def start_of(row: int, number: int) -> Tensor:
        draws = streams("start", observation.trials[row], number).normal(inversion.unknowns)
        return draws.to(like.device, like.dtype)

    found = search(inversion, start_of, inversion.loss_of_nothing(), settings, lbfgs)
    rows = torch.arange(len(observation.trials), device=like.device)
    chosen = inversion.unpack(found.points[rows, found.chosen()], rows)
    candidates = [inversion.unpack(points, rows).images for points in found.points.unbind(1)]
    return Reconstruction(
        images=chosen.images,
        labels=chosen.targets.argmax(-1),
        candidates=torch.stack(candidates, 1),
        candidate_losses=found.losses,
        starts=tuple(replace(record, trial=observation.trials[record.trial]) for record in found.records),
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
    return Inversion(victim(observation, knowledge, attack), observed, shape, classes, distance, labels)


def search_settings(
    budget: Budget, matched: float, accepted: float, patience: int, improvement: float
) -> SearchSettings:
    """Return the search's settings from the budget and an attack's fields."""
    return SearchSettings(budget.iterations, budget.restarts, matched, accepted, patience, improvement)
