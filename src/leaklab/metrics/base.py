"""What a metric is: values per image and a card that says how they were computed.

The same two images have many "PSNRs": domain, peak, clamping, network, input range, assignment and averaging all
change the number, so every number travels with its card.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # cards are read by steps without tensors
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
