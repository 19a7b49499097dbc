"""Inversion of an update of several local steps (delta matching), and of one whose local rates are hidden.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", section 6 (updates instead of
gradients); the attackers who do not trust the rates: ``joint_rates``, ``profiled_rates`` and ``surrogate``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.base import Attack, Budget, Case, Reconstruction, Streams, victim
from leaklab.attacks.labels.rules import LABEL_RULES, fixed_labels
from leaklab.attacks.matching.delta import DeltaMatching, JointRates, Samples, Surrogate, as_delta
from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.attacks.matching.profiled_rates import ProfiledRates
from leaklab.attacks.matching.steps import steps_of
from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.priors import Box, WithPrior, total_variation
from leaklab.attacks.search.restarts import SearchResult, StopRules, search
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.attacks.starts import numbered
from leaklab.models.normalisation import unnormalised
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.declared import KNOWN_LABELS, PRESCRIBED_STEPS, SAMPLES, Requirements
from leaklab.records.bounds import NonNegative, Rate
from leaklab.records.errors import UserError
from leaklab.records.traits import LBFGS_STEP, AttackTraits

MATCHINGS = ("nominal", "joint-rates", "profiled-rates", "surrogate")
OPTIMIZERS = ("signed-adam", "lbfgs")

SMALLEST_SHARE = 0.05
"""Rates and places start at least this far, relative to their interval, from its ends, where derivatives vanish."""


@dataclass(frozen=True)
class PixelBox(Box):
    """Keeps the first ``pixels`` unknowns within [lower, upper] and leaves the others alone."""

    pixels: int = 0

    def project(self, points: Tensor) -> Tensor:
        """Return the nearest points with all pixels within the box, same shape."""
        return torch.cat([super().project(points[:, : self.pixels]), points[:, self.pixels :]], 1)


@dataclass(frozen=True)
class DeltaInversion(StopRules):
    """Search the images on which simulated local training sends the observed update; labels are fixed beforehand.

    The client repeats its batch in every step, by plain gradient descent. Transform ``none`` goes with this attack: it
    takes the update as it is, and a gradient is turned back into the delta that it was computed from. The stop rules
    (``search.StopRules``) are those of L-BFGS.

    Attributes:
        matching: ``nominal`` (the steps have the server's rate: the attacker of the papers), ``joint-rates`` (the
            rates are searched too; only that they are positive is assumed), ``profiled-rates`` (they follow by least
            squares, for small rates) or ``surrogate`` (the direction of the update is matched with one gradient
            between the weights; needs no rate). The last two have a distance of their own.
        label_rule: ``bias`` (smallest bias gradient of the head, for single samples; with several steps a good guess
            and no identity), ``distinct`` (the smallest ones, for samples of different classes; likewise) or ``known``
            (granted by the threat model).
        optimizer: ``signed-adam`` (pixels stay in [0, 1]) or ``lbfgs`` (they are free, as in ``dlg``).
        rate: step size of signed Adam.
        smoothness: weight of the total variation, relative to the matching loss of an all-zero update.
    """

    traits: ClassVar[AttackTraits] = AttackTraits(
        evaluations=1,
        evaluations_when={"optimizer": {"lbfgs": LBFGS_STEP}},
        keeps_state=True,
        unrolls=True,
        evaluation_factor=1.6,
    )

    requirements: ClassVar[Requirements] = Requirements(
        facts=SAMPLES,
        facts_when={
            "label_rule": KNOWN_LABELS,
            "matching": {
                "nominal": PRESCRIBED_STEPS,
                "joint-rates": PRESCRIBED_STEPS,
                "profiled-rates": PRESCRIBED_STEPS,
            },
        },
    )

    matching: str = "nominal"
    label_rule: str = "bias"
    optimizer: Literal["signed-adam", "lbfgs"] = "signed-adam"
    rate: Rate = 0.1
    smoothness: NonNegative = 0.0

    def __post_init__(self) -> None:
        for setting, allowed in (("matching", MATCHINGS), ("label_rule", LABEL_RULES), ("optimizer", OPTIMIZERS)):
            if getattr(self, setting) not in allowed:
                chosen = getattr(self, setting)
                raise UserError(f"delta-ig has no {setting} '{chosen}': choose from {', '.join(allowed)}")

    def reconstruct(self, case: Case) -> Reconstruction:
        """Reconstruct every trial; see ``Attack.reconstruct``.

        Raises:
            UserError: withheld facts, no budget, an update that is not finite, or layers in training state.
        """
        knowledge, budget = case.knowledge, case.budget
        if min(budget.iterations, budget.restarts) < 1:
            raise UserError("delta-ig needs at least one iteration and one restart: raise iterations and restarts")
        observation = as_delta(case.observation, knowledge)
        network = victim(observation, knowledge, "delta-ig")
        labels = fixed_labels("delta-ig", self.label_rule, observation, knowledge, case.distance)
        samples = Samples(case.shape("delta-ig"), case.classes("delta-ig"), labels)
        objective = self._objective(network, observation, knowledge, samples, case.distance or squared_l2)
        found = self._search(objective, self._starts(objective, observation, case.streams), budget)
        candidates = found.points[..., : samples.pixels].reshape(*found.points.shape[:2], *samples.shape)
        return Reconstruction.of_starts(candidates, found.losses, labels, numbered(found.records, observation.trials))

    def _objective(
        self,
        network: nn.Sequential,
        observation: Observation,
        knowledge: Knowledge,
        samples: Samples,
        distance: Distance,
    ) -> DeltaMatching | Surrogate:
        observed = list(observation.update.values())
        if self.matching == "surrogate":
            return Surrogate(network, observed, samples)
        rates = torch.tensor(knowledge.assumed_rates("delta-ig")).to(observed[0])
        if self.matching == "profiled-rates":
            return ProfiledRates(network, observed, samples, rates)
        kind = JointRates if self.matching == "joint-rates" else DeltaMatching
        return kind(network, observed, samples, rates, distance, steps_of(knowledge, None, "delta-ig"))

    def _starts(
        self, objective: DeltaMatching | Surrogate, observation: Observation, streams: Streams
    ) -> Callable[[int, int], Tensor]:
        """Return where the search starts: random images; rates or place in the middle, then anywhere."""
        network, shape = objective.network, objective.samples.shape
        others = objective.unknowns - objective.samples.pixels
        like = next(iter(observation.update.values()))

        def start_of(row: int, number: int) -> Tensor:
            draws = streams("start", observation.trials[row], number)
            normal = self.optimizer == "lbfgs"
            images = unnormalised(network, draws.normal(*shape)) if normal else draws.uniform(*shape)
            shares = torch.full((others,), 0.5).double() if number == 0 else draws.uniform(others)
            return torch.cat([images.flatten(), torch.logit(shares, eps=SMALLEST_SHARE)]).to(like)

        return start_of

    def _search(
        self, objective: DeltaMatching | Surrogate, start_of: Callable[[int, int], Tensor], budget: Budget
    ) -> SearchResult:
        samples, scale = objective.samples, objective.loss_of_nothing()
        regularised = WithPrior(objective, total_variation, self.smoothness, samples.shape, scale)
        wanted = regularised if self.smoothness > 0 else objective
        if self.optimizer == "lbfgs":
            return search(wanted, start_of, scale, self.within(budget.iterations, budget.restarts), LbfgsSettings())
        box = PixelBox(pixels=samples.pixels)
        steps = SignedAdamSettings(budget.iterations, budget.restarts, rate=self.rate, box=box)
        return signed_adam(wanted, start_of, len(scale), steps)


PLUGIN: type[Attack] = DeltaInversion
