"""What a metric is: values per image and a card that says how they were computed.

The same two images have many "PSNRs": domain, peak, clamping, network, input range, assignment and averaging all
change the number, so every number travels with its card.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.truth import Truth
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.spec_plugins import reads_the_update
from leaklab.records.traits import MetricTraits, metric_traits

if TYPE_CHECKING:
    from torch import Tensor


BATCH_ASSIGNMENT = "batches larger than one: Hungarian on clamped MSE, the same permutation for every image metric"
PER_IMAGE = "one value per image; each table says whether it shows their mean or their median"


@dataclass(frozen=True)
class MetricCard:
    """How a metric's numbers are to be read.

    Attributes:
        name: as in the ``metric`` column.
        unit: of the value; empty for pure numbers.
        better: direction in which the *client's privacy* gets better.
        domain: scale on which the images are compared.
        peak: largest value of a pixel in the formula; None where the formula has none.
        clamping: what happens to pixels outside the domain.
        network: network with the origin of its weights; empty for closed forms.
        input_range: range of the numbers that enter the formula or network.
        assignment: how the images of a batch are paired with the private ones.
        averaging: how values become one number.
        note: what else a reader must know.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    domain: str
    peak: float | None
    clamping: str
    network: str
    input_range: str
    assignment: str = BATCH_ASSIGNMENT
    averaging: str = PER_IMAGE
    note: str = ""


class Metric(ABC):
    """A plug-in of this room: a card and one value per image."""

    @property
    @abstractmethod
    def card(self) -> MetricCard:
        """Return the metric card."""

    @abstractmethod
    def values(self, reconstruction: "Tensor", truth: "Tensor") -> "Tensor":
        """Compare images with their originals.

        Args:
            reconstruction: [N, C, H, W], finite, on the [0, 1] scale but not clamped.
            truth: [N, C, H, W] in [0, 1].

        Returns:
            float64, [N], on the CPU.
        """

    def available(self) -> str | None:
        """Return why this metric cannot be computed here, or None if it can."""
        return None


# Metrics of a search, not of a picture: what an attacker sees of its own success, and whether that was right.


class SearchMetric(ABC):
    """A plug-in of this room: a card and one value per private image of an update, from what the attack found.

    Attributes:
        traits: with ``reads_the_search``.
    """

    traits: ClassVar[MetricTraits]

    @property
    @abstractmethod
    def card(self) -> MetricCard:
        """Return the metric card."""

    @abstractmethod
    def values(self, found: Mapping[str, Tensor], errors: Tensor) -> Tensor:
        """Return the value at each image.

        Args:
            found: tensors of the reconstruction by name (``attacks/base.py::Reconstruction``).
            errors: mean squared error on [0, 1] of the images that the attack chose, [T, B]; for those metrics alone
                that ask whether the attacker was right.

        Returns:
            float64 [T, B], on the CPU.
        """


def reads_the_search(metric: str) -> bool:
    """Tell whether a metric is of the search.

    Raises:
        UserError: there is no such metric.
    """
    return metric_traits(metric).reads_the_search


def load_search_metrics(names: Iterable[str]) -> list[SearchMetric]:
    """Load those of the metrics that are of the search."""
    return [plugins.load("metrics", name) for name in names if reads_the_search(name)]


# Metrics of what the server saw, not of a guess: what any attacker of a kind can expect of an update.


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
        return metric.values(observation, knowledge, generator, truth)
    rows = observation.speaking
    found = torch.full(truth.labels.shape, torch.nan, dtype=torch.float64)
    if rows:
        found[rows] = metric.values(observation.select(rows), knowledge, generator, truth.select(rows))
    return found


def names_of_image_metrics(names: Iterable[str]) -> list[str]:
    """Return those of the names whose metrics compare images."""
    return [name for name in names if not (reads_the_update(name) or reads_the_search(name))]
