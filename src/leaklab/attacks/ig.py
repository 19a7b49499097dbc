"""Inverting gradients (IG): match the direction of the gradient with images that are smooth and within their range.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", eq. (4) and section 5; rate,
decay and start are those of its published code.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.attacks.base import Attack, Case, Reconstruction, require_gradient, victim
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.matching.cosine import CosineInversion
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.search.priors import Box, WithPrior, total_variation
from leaklab.attacks.search.restarts import Matching, Objective
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.observations.declared import KNOWN_LABELS, SAMPLES, Requirements
from leaklab.records.bounds import NonNegative, Rate
from leaklab.records.traits import AttackTraits


@dataclass(frozen=True)
class InvertingGradients:
    """Minimise 1 - cos(g', o) + weight * TV over the images by signed Adam; labels are known or read off.

    Images are on the [0, 1] scale; each start is a draw from N(0, 1) on the scale of the network's
    input, put into the box. The cosine ignores any positive factor on the update, so a perturbed learning rate hides
    nothing from this attack.

    Attributes:
        label_rule: ``known`` (granted by the threat model), ``bias`` (smallest bias gradient of the head, for one
            sample per update) or ``distinct`` (the smallest ones, for samples of different classes).
        total_variation: weight of the prior, relative to the matching loss of a zero gradient (1 for the cosine); 0.1
            to 1e-6 in the source, by setting.
        rate: of signed Adam, in units of a pixel; falls by ten after 3/8, 5/8 and 7/8 of the iterations.
        boxed: keep the pixels within the range that the threat model grants.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(evaluations=1, keeps_state=True)

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES, facts_when={"label_rule": KNOWN_LABELS, "boxed": {True: ("input_range",)}}
    )

    label_rule: str = "known"
    total_variation: NonNegative = 1e-4
    rate: Rate = 0.1
    boxed: bool = True

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        The distance of a transform is matched in place of the cosine, divided by its value for a gradient of zero so
        that the prior weighs as much.

        Raises:
            UserError: unknown rule, a rule for single samples on batches, or an observation that is not a gradient.
        """
        require_gradient(case.observation, "ig")
        observation, knowledge, budget = case.observation, case.knowledge, case.budget
        labels = fixed_labels("ig", self.label_rule, observation, knowledge, case.distance)
        inversion, matching = self._matching(case, labels)
        objective: Objective = matching
        if self.total_variation != 0:
            unit = matching.loss_of_nothing()
            objective = WithPrior(objective, total_variation, self.total_variation, inversion.shape, unit)
        box = Box(*knowledge.require("input_range", "ig")) if self.boxed else None
        settings = SignedAdamSettings(budget.iterations, budget.restarts, self.rate, box=box)

        def start_of(row: int, number: int) -> Tensor:
            return inversion.normal_start(case.streams("start", observation.trials[row], number))

        found = signed_adam(objective, start_of, len(observation.trials), settings)
        return inversion.reconstruction(found, observation.trials)

    def _matching(self, case: Case, labels: Tensor) -> tuple[Inversion, Matching]:
        """Return the inversion and its loss, 1 for a gradient of zero."""
        network = victim(case.observation, case.knowledge, "ig")
        shape, classes, observed = case.shape("ig"), case.classes("ig"), list(case.observation.update.values())
        if case.distance is None:
            cosine = CosineInversion(network, observed, shape, classes, labels)
            return cosine, cosine
        other = Inversion(network, observed, shape, classes, case.distance, labels)
        return other, _Relative(other)


class _Relative:
    """An inversion's loss and derivative in units of its loss for a gradient of zero; a ``Matching``."""

    def __init__(self, inversion: Inversion) -> None:
        self.inversion, self.unit = inversion, inversion.loss_of_nothing()

    def loss_of_nothing(self) -> Tensor:
        """Return ones, [T]."""
        return torch.ones_like(self.unit)

    def __call__(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        loss, derivative = self.inversion(points, rows)
        return loss / self.unit[rows], derivative / self.unit[rows, None]


PLUGIN: type[Attack] = InvertingGradients
