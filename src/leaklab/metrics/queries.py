"""How often a malicious server had to ask for an update of the same samples until it had the one it attacks."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from leaklab.captures.truth import Truth
from leaklab.metrics.base import MetricCard
from leaklab.metrics.of_update import UpdateMetric
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.traits import MetricTraits
from leaklab.specs.attack import AttackSpec


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


PLUGIN = Queries
