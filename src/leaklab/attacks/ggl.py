"""Generative gradient leakage (GGL): gradient matching among the images that a class-conditional generator can make.

Source: "Auditing Privacy Defenses in Federated Learning via Generative Gradient Leakage"; settings as the LRP paper
states them (CMA-ES, population 50).
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from leaklab.attacks.base import Attack, Budget, Case, Reconstruction, Streams, require_gradient, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.latents.landscape import LatentMatching
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.search.latent import AdamSettings, CmaSettings, adam_search, cma_search
from leaklab.attacks.search.restarts import SearchResult
from leaklab.attacks.starts import StartRecord
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.records.bounds import NonNegative, Population, Positive, Rate
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream
from leaklab.records.traits import AttackTraits

OPTIMIZERS = ("cma", "adam")


@dataclass(frozen=True)
class GenerativeGradientLeakage:
    """Search the latent of each image by the squared L2 distance of the gradients, divided by the tensors' number.

    A batch is attacked one image at a time: each image of an update is sought in its own class, as if the whole
    update came from it alone. With ``joint`` all its latents are sought together against the mean gradient.

    Attributes:
        label_rule: ``bias`` (smallest bias gradient of the head, for one sample per update), or another one of
            ``labels.fixed_labels``.
        optimizer: ``cma`` (the paper's) or ``adam``, which needs second derivatives of the victim.
        population: candidates per generation (cma).
        sigma: standard deviation of the first generation (cma).
        squash: keep latents within (-1, 1) by tanh, as published (cma); where tanh is flat a search can get stuck, so
            an attacker who wants the most should also try without.
        rate: Adam's rate (adam).
        penalty: weight of the latent's distance from the prior (adam), relative to the loss of a zero gradient; see
            ``prior_divergence``.
        joint: search all images of an update together; ``adam`` is the better optimizer for their many latents.
        dtype: ``observed`` (that of the update) or ``float64``.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="population", keeps_state=True, drawn=True)

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"), facts_when={"label_rule": KNOWN_LABELS}, generator=True
    )

    label_rule: str = "bias"
    optimizer: Literal["cma", "adam"] = "cma"
    population: Population = 50
    sigma: Positive = 1.0
    squash: bool = True
    rate: Rate = 0.1
    penalty: NonNegative = 1e-3
    joint: bool = False
    dtype: Literal["observed", "float64"] = "observed"

    def __post_init__(self) -> None:
        """Refuse an unknown optimizer and a negative penalty."""
        if self.optimizer not in OPTIMIZERS:
            raise UserError(f"ggl has no optimizer '{self.optimizer}': choose from {', '.join(OPTIMIZERS)}")
        if not self.penalty >= 0:
            raise UserError(f"ggl's penalty must not be negative, and is {self.penalty}")

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``. All starts run.

        Raises:
            UserError: see ``matching``.
        """
        matching, labels = self.matching(case)
        # searches are named by their number within the capture
        searches, trials = labels.shape[1] // matching.batch, case.observation.trials
        numbers = [trial * searches + place for trial in trials for place in range(searches)]
        found = ggl_search(matching, tuple(numbers), case.budget, case.streams, self)
        return _reconstruction(matching, found, labels, trials)

    def matching(self, case: Case) -> tuple[LatentMatching, Tensor]:
        """Return the loss that is searched, one row per image of each trial, and the inferred labels [T, B].

        A joint search has one row per trial.

        Raises:
            UserError: facts are withheld, the rule does not fit the batch, the observation is no gradient, or the
                generator does not make the victim's images and classes.
        """
        require_gradient(case.observation, "ggl")
        observation, knowledge, generator = case.observation, case.knowledge, case.prior("ggl")
        if self.dtype == "float64":
            observation = observation.in_dtype(torch.float64)
        network = victim(observation, knowledge, "ggl")
        generator.require(case.shape("ggl")[1:], case.classes("ggl"))
        labels = fixed_labels("ggl", self.label_rule, observation, knowledge, case.distance)
        observed, batch = list(observation.update.values()), labels.shape[1]
        if batch > 1 and not self.joint:
            observed = [value.repeat_interleave(batch, 0) for value in observed]
        matching = LatentMatching(
            deepcopy(generator).to(observed[0]),
            network,
            observed,
            labels if self.joint else labels.flatten(),
            case.distance or squared_l2,
            self.penalty,
            tuple(knowledge.require("input_range", "ggl")),
        )
        return matching, labels


def ggl_search(
    matching: LatentMatching,
    numbers: tuple[int, ...],
    budget: Budget,
    streams: Streams,
    settings: GenerativeGradientLeakage,
) -> SearchResult:
    """Search the latents of N trials of ``matching``; the losses are its losses.

    Args:
        matching: N searches.
        numbers: number of each search within the capture, which names its draws.
        budget: generations (cma) or steps (adam) per start, and starts; all starts run.
        streams: see ``Attack.reconstruct``.
        settings: see ``GenerativeGradientLeakage``.
    """
    like, size = matching.observed[0], matching.unknowns

    def start_of(row: int, number: int) -> Tensor:
        return streams("start", numbers[row], number).normal(size).to(like)

    def stream_of(row: int, number: int) -> Stream:
        return streams("candidates", numbers[row], number)

    if settings.optimizer == "adam":
        adam = AdamSettings(budget.iterations, budget.restarts, settings.rate)
        return adam_search(matching, start_of, len(numbers), adam)
    cma = CmaSettings(budget.iterations, budget.restarts, settings.population, settings.sigma, settings.squash)
    return cma_search(matching.evaluate, start_of, stream_of, len(numbers), cma)


def _reconstruction(
    matching: LatentMatching, found: SearchResult, labels: Tensor, trials: tuple[int, ...]
) -> Reconstruction:
    """Put the images of a trial side by side; start r of a trial is the r-th best start of each of its searches."""
    batch, number = labels.shape[1], len(trials)
    order = found.losses.argsort(dim=1, stable=True)
    losses = found.losses.gather(1, order)
    points = found.points.gather(1, order[:, :, None].expand_as(found.points))
    rows = torch.arange(len(points), device=points.device)
    with torch.no_grad():
        images = torch.stack([matching.batches(latents, rows) for latents in points.unbind(1)], 1)
    by_trial = images.view(number, -1, *images.shape[1:])
    candidates = by_trial.transpose(1, 2).flatten(2, 3).contiguous()
    means = losses.view(number, -1, losses.shape[1]).mean(1)
    starts, latents = _starts(found, order, trials, batch // matching.batch), points[:, 0].reshape(number, batch, -1)
    return Reconstruction.of_starts(candidates, means, labels, starts, latents=latents)


def _starts(found: SearchResult, order: Tensor, trials: tuple[int, ...], searches: int) -> tuple[StartRecord, ...]:
    """Return one record per trial and rank: mean loss and summed work of its searches."""
    by_place = {(record.trial, record.start): record for record in found.records}
    records = []
    for row, trial in enumerate(trials):
        own_rows = range(row * searches, (row + 1) * searches)
        for rank in range(order.shape[1]):
            own = [by_place[search, int(order[search, rank])] for search in own_rows]
            longest = max(own, key=lambda record: record.iterations)
            records.append(
                replace(
                    longest,
                    trial=trial,
                    start=rank,
                    matching_loss=sum(record.matching_loss for record in own) / searches,
                    evaluations=sum(record.evaluations for record in own),
                    diverged=any(record.diverged for record in own),
                )
            )
    return tuple(records)


PLUGIN: type[Attack] = GenerativeGradientLeakage
