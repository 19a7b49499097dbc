"""Narrow MAP: annealed MAP without its stages, for somebody who waits for the picture of one update.

The search begins at the mean image of the class, the best guess before anything is seen, and at once under the
narrowest likelihood. What stages are for, a way around poor minima, is another start here, and one is made only of
updates that no start before explains. Several local steps are simulated at the rates that the server prescribed, where
``annealed-map`` has them as unknowns.

Source: as ``annealed``; both side by side are in ``benchmarks/time_to_picture.md``.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction
from leaklab.attacks.labels.public import labels_of
from leaklab.attacks.latents.posterior import Posterior, latent_starts, posterior_of
from leaklab.attacks.latents.scene import Scene, scene_of_case
from leaklab.attacks.latents.unrolled import Ladder
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.one_by_one import one_by_one
from leaklab.attacks.matching.steps import steps_of
from leaklab.attacks.search.backtracking import Descent, descend
from leaklab.attacks.starts import StartRecord
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import Count, NonNegative, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import AttackTraits

NARROW = "narrow-map"
MATCHINGS = ("gradient", "prescribed")


@dataclass(frozen=True)
class NarrowMap:
    """Search the latents of all images of an update by their posterior, at once in its narrow valley; in float64.

    It is made for Gaussians of public images (``class-gaussian``, ``GaussiansOnDemand``). The budget's iterations are
    evaluations per start.

    Attributes:
        label_rule: as in ``annealed-map``.
        error: of each entry, relative to the norm of the observed gradient.
        explained: no further start is tried below this distance, relative to that of a zero gradient.
        box: weight of the squares by which pixels leave [0, 1], beside a negative log-density.
        spread: standard deviation of a start's latents; the first start of a single image is the class's mean image.
        history: pairs kept by L-BFGS; the valley is long, and more of them pay where stages are not.
        matching: ``gradient`` (one gradient stands for all local steps) or ``prescribed`` (the steps are simulated at
            the rates that the server prescribed).
    """

    traits: ClassVar[AttackTraits] = AttackTraits()

    requirements: ClassVar[Requirements] = Requirements(
        facts=(*SAMPLES, "input_range"),
        facts_when={"label_rule": KNOWN_LABELS, "matching": {"prescribed": PRESCRIBED_STEPS}},
        generator=True,
    )

    label_rule: str = "likelihood"
    error: Positive = 1.1e-5
    explained: NonNegative = 1e-5
    box: NonNegative = 100.0
    spread: NonNegative = 0.3
    history: Count = 100
    matching: str = "gradient"

    def __post_init__(self) -> None:
        """Refuse an unknown matching."""
        if self.matching not in MATCHINGS:
            raise UserError(f"{NARROW} has no matching '{self.matching}': choose from {', '.join(MATCHINGS)}")

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: facts are withheld, the label rule does not fit the batch, the observation is no gradient or not
                finite, or the generator does not make the victim's images and classes.
        """
        scene, trials = scene_of_case(NARROW, case), case.observation.trials
        labels = labels_of(scene, self.label_rule, case.streams)
        posterior = self._posterior(scene, labels)
        starts = latent_starts(posterior, trials, case.budget.restarts, case.streams, self.spread)
        starts = starts.view(len(trials), case.budget.restarts, -1)
        losses, records = starts.new_full(starts.shape[:2], torch.inf), list[StartRecord]()
        rows = torch.arange(len(trials), device=starts.device)
        for number in range(case.budget.restarts):
            found = descend(posterior, starts[rows, number], rows, case.budget.iterations, self.history)
            starts[rows, number], losses[rows, number] = found.points, found.losses
            records += _records(found, [trials[row] for row in rows.tolist()], number)
            rows = rows[self._unexplained(posterior, found, rows)]
            if not len(rows):
                break
        return _reconstruction(posterior, starts, losses, labels, sorted(records, key=lambda one: one.trial))

    def _posterior(self, scene: Scene, labels: Tensor) -> Posterior:
        wide, shape = posterior_of(scene, labels, self.box), (labels.shape[1], *scene.generator.image_shape)
        client = None
        if self.matching == "prescribed":
            client = scene.knowledge.assumed_rates(NARROW), steps_of(scene.knowledge, None, NARROW)
        classes, way = scene.generator.num_classes, one_by_one(scene.network, client)
        inversion = Inversion(scene.network, scene.observed, shape, classes, scene.distance, labels, way)
        [weight] = Ladder(self.error, self.error, 1).weights(scene.distance, inversion.loss_of_nothing())
        return replace(wide, inversion=inversion, weight=weight)

    def _unexplained(self, posterior: Posterior, found: Descent, rows: Tensor) -> Tensor:
        """Return which of the trials ``rows`` [S] their start does not explain: [S] bool."""
        with torch.no_grad():
            beliefs = posterior.beliefs(found.points, posterior.images(found.points, rows))
        distance = (found.losses - beliefs) / posterior.weight[rows]
        return ~(distance <= self.explained * posterior.inversion.loss_of_nothing()[rows])


def _records(found: Descent, trials: list[int], number: int) -> list[StartRecord]:
    """Return how one start of each of some trials ended."""
    ended = zip(trials, found.losses.tolist(), found.iterations.tolist(), found.evaluations.tolist(),
                found.stalled.tolist(), strict=True)  # fmt: skip
    return [
        StartRecord(trial, number, loss, iterations, evaluations, loss == torch.inf,
                    "diverged" if loss == torch.inf else "stagnated" if stalled else "budget")
        for trial, loss, iterations, evaluations, stalled in ended
    ]  # fmt: skip


def _reconstruction(
    posterior: Posterior, points: Tensor, losses: Tensor, labels: Tensor, records: list[StartRecord]
) -> Reconstruction:
    """Return the images of all starts [T, R, n], and of each trial those of the likeliest one."""
    rows = torch.arange(len(points), device=points.device)
    with torch.no_grad():
        images = torch.stack([posterior.images(one, rows) for one in points.unbind(1)], 1)
    latents = posterior.latents(points[rows, losses.argmin(1)])
    return Reconstruction.of_starts(posterior.scene.as_inputs(images), losses, labels, tuple(records), latents=latents)


PLUGIN = NarrowMap
