"""Metrics of what the server saw, not of a guess: what any attacker of a kind can expect of an update."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.captures.truth import Truth
from leaklab.metrics.base import MetricCard, SearchMetric, reads_the_search
from leaklab.metrics.pixel import EXACT_DB, exact
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.purity import watched
from leaklab.records.traits import MetricTraits
from leaklab.specs.attack import AttackSpec, ScoreSpec
from leaklab.specs.base import reads_the_update

OWN_DRAWS = "a generator with a seed of its own"


class UpdateMetric(ABC):
    """A plug-in of this room: a card and one value per private image, whatever an attack found.

    Attributes:
        traits: with ``reads_the_update``.
    """

    traits: ClassVar[MetricTraits]

    @property
    @abstractmethod
    def card(self) -> MetricCard:
        """Return the metric card."""

    @abstractmethod
    def refusal(self, spec: AttackSpec) -> str | None:
        """Return why an attack has no such number, or None if it has one."""

    @abstractmethod
    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return the value at each private image.

        Args:
            observation: all T trials of the capture.
            knowledge: what the threat model grants.
            generator: the attack's, frozen; None where it has none.
            truth: the private images.

        Returns:
            float64 [T, B], on the CPU.

        Raises:
            UserError: the generator does not make the victim's images and classes.
        """


def load_update_metrics(spec: ScoreSpec) -> tuple[list[UpdateMetric], dict[str, str]]:
    """Load the metrics of a score that read the update.

    Returns:
        Those that the attack has, and for the others the reason why not, by metric name.
    """
    metrics: list[UpdateMetric] = [plugins.load("metrics", name) for name in spec.metrics if reads_the_update(name)]
    reasons = {metric.card.name: metric.refusal(spec.attack) for metric in metrics}
    usable = [metric for metric in metrics if reasons[metric.card.name] is None]
    return usable, {name: reason for name, reason in reasons.items() if reason is not None}


def values_of_speaking(
    metric: UpdateMetric, seen: tuple[Observation, Knowledge], generator: Generator | None, truth: Truth
) -> Tensor:
    """Return a metric of the update, [T, B]; NaN of those that say nothing, about which it is not asked."""
    observation, knowledge = seen
    if not observation.silent:
        return _values(metric, observation, knowledge, generator, truth)
    rows = observation.speaking
    found = torch.full(truth.labels.shape, torch.nan, dtype=torch.float64)
    if rows:
        found[rows] = _values(metric, observation.select(rows), knowledge, generator, truth.select(rows))
    return found


def _values(
    metric: UpdateMetric, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
) -> Tensor:
    given = {"observation": observation, "knowledge": knowledge, "truth": truth}
    with watched(metric, call="values", given=given, draws=OWN_DRAWS):
        return metric.values(observation, knowledge, generator, truth)


def values_of_search(metric: SearchMetric, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
    """Return a metric of the search, [T, B]; see ``SearchMetric.values``."""
    with watched(metric, call="values", given={"found": found, "errors": errors}, draws=OWN_DRAWS):
        return metric.values(found, errors)


def names_of_image_metrics(names: Iterable[str]) -> list[str]:
    """Return those of the names whose metrics compare images."""
    return [name for name in names if not (reads_the_update(name) or reads_the_search(name))]


# How often a malicious server had to ask for an update of the same samples until it had the one it attacks.


@dataclass(frozen=True)
class Queries(UpdateMetric):
    """The number of queries, the same for all private samples of a capture."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_update=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="queries",
            unit="",
            better="higher",
            domain="counts from 1",
            peak=None,
            clamping="none",
            network="",
            input_range="whole numbers",
            assignment="none: it is counted before an attack begins",
            note="each query is a round of the client on the same samples, with fresh draws of its defense",
        )

    def refusal(self, spec: AttackSpec) -> str | None:
        """Return why an attack has no such number, or None if it has one."""
        return None if spec.capture.server else "the server sends honest weights, once"

    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return the count for each private sample, [T, B]."""
        count = int(knowledge.require("queries", "queries"))
        return torch.full(truth.labels.shape, count, dtype=torch.float64)


# How long an update is.


@dataclass(frozen=True)
class UpdateNorm(UpdateMetric):
    """The Euclidean norm of the gradient that the server computes from an update, the same for all its samples."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_update=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="update_norm",
            unit="",
            better="lower",
            domain="0 and above",
            peak=None,
            clamping="none",
            network="",
            input_range="gradients of all parameters together",
            assignment="none: it is computed before an attack begins",
            note="a difference of weights is divided by the rates that the server assumes; a defense changes it",
        )

    def refusal(self, spec: AttackSpec) -> str | None:
        """Return None: every update has one."""
        return None

    def values(
        self, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
    ) -> Tensor:
        """Return the norm for each private sample, [T, B]."""
        gradient = observation.as_gradient(knowledge, "update_norm").update
        squares = torch.stack([value.double().flatten(1).square().sum(1) for value in gradient.values()])
        return squares.sum(0).sqrt().cpu()[:, None].expand(truth.labels.shape).clone()


# The loss that the attack ended with: how well its images explain the update, whether they show anything or not.
#
# Source: OUTPOST paper, tables IV and V ("reconstruction loss").


LARGEST = 1e12
"""Stands for the loss of a trial all of whose starts diverged, so that it is scored and not dropped."""


@dataclass(frozen=True)
class ReconstructionLoss(SearchMetric):
    """The smallest loss of all starts; of a batch the same for each image."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="reconstruction_loss",
            unit="",
            better="higher",
            domain="the attack's own loss, its prior included",
            peak=None,
            clamping=f"{LARGEST:g} where all starts diverged",
            network="",
            input_range="none: no image is compared",
            assignment="none: one value an update, repeated for each of its images",
            note="what the attacker sees of its success; a small loss does not say that the images show anything",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return the losses [T, B]; see ``SearchMetric``."""
        least = found["candidate_losses"].double().amin(1).clamp(max=LARGEST)
        return least[:, None].expand_as(found["labels"]).clone()


# Whether the attacker knows, without the truth, that a whole batch is exact.


@dataclass(frozen=True)
class Certified(SearchMetric):
    """1 for each image of an update that the attack proved to be exact, of attacks that prove anything."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name="certified",
            unit="",
            better="lower",
            domain="0 or 1",
            peak=1.0,
            clamping="none",
            network="",
            input_range="none: no image is compared",
            assignment="none: one value an update, repeated for each of its images",
            averaging="mean over the images: the share of them",
            note="no value for attacks that prove nothing: neither a loss of 0 nor a quotient is a proof",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return 1.0, 0.0 or NaN for each image, [T, B]; see ``SearchMetric``."""
        return certified(found)


def certified(found: Mapping[str, Tensor]) -> Tensor:
    """Return 1.0 for each image of an update that the attack proved, else 0.0, [T, B]; NaN where it proves none."""
    labels = found["labels"]
    proven = found["certified"].to(torch.float64) if "certified" in found else torch.full((len(labels),), torch.nan)
    return proven.double()[:, None].expand_as(labels).clone()


# Whether a certificate was wrong: an image of an update that the attack certified, and that is not exact.


@dataclass(frozen=True)
class FalseCertificate(SearchMetric):
    """1 for each image that the attack certified and that is not exact; 0 throughout where certificates hold."""

    traits: ClassVar[MetricTraits] = MetricTraits(reads_the_search=True)

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return replace(
            Certified().card,
            name="false_certificate",
            better="higher",
            clamping="reconstruction clamped to [0, 1]",
            input_range="[0, 1]",
            assignment="of the images that the attack chose",
            note=f"certified, but not exact: PSNR of at most {EXACT_DB:g} dB",
        )

    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return 1.0 or 0.0 for each image, [T, B]; see ``SearchMetric``."""
        proven = certified(found)
        return proven * (1 - exact(errors).to(proven))


PLUGINS = {
    "certified": Certified,
    "false-certificate": FalseCertificate,
    "queries": Queries,
    "reconstruction-loss": ReconstructionLoss,
    "update-norm": UpdateNorm,
}
