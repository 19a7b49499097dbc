"""Metrics of a search, not of a picture: what an attacker sees of its own success, and whether that was right."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

from torch import Tensor

from leaklab.metrics.base import MetricCard
from leaklab.records import plugins


class SearchMetric(ABC):
    """A plug-in of this room: a card and one value per private image of an update, from what the attack found.

    Attributes:
        reads_the_search: True; read from the source, as these metrics compare no images.
    """

    reads_the_search: ClassVar[bool]

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
    plugins.check("metrics", metric, {})
    return plugins.class_attribute("metrics", metric, "reads_the_search") is not None


def load_search_metrics(names: Iterable[str]) -> list[SearchMetric]:
    """Load those of the metrics that are of the search."""
    return [plugins.load("metrics", name) for name in names if reads_the_search(name)]
