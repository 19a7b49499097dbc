"""What a metric is: values per image and a card that says how they were computed.

The same two images have many "PSNRs": domain, peak, clamping, network, input range, assignment and averaging all
change the number, so every number travels with its card.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from leaklab.records import plugins
from leaklab.records.traits import MetricTraits, metric_traits

if TYPE_CHECKING:  # read by steps without tensors
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


LABEL_CARD = MetricCard(
    name="label_correct",
    unit="",
    better="lower",
    domain="class labels",
    peak=None,
    clamping="none",
    network="",
    input_range="int64",
    assignment="as multisets: a true label counts if an inferred label is left for it",
    averaging="0 or 1 per private image, none where no label was guessed; the mean is the label accuracy",
    note="labels that the threat model grants to the attacker count as inferred",
)


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
    def values(self, found: Mapping[str, "Tensor"], errors: "Tensor") -> "Tensor":
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
