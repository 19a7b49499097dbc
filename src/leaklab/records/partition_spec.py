"""Spec of a partition: how the training data are dealt to clients."""

from collections.abc import Mapping
from typing import ClassVar

from leaklab.records.bounds import Natural, PartShare, Seed
from leaklab.records.record import Component
from leaklab.records.specs import Spec


class PartitionChoice(Component):
    """How the training data are dealt to clients: ``{name: two-clients, seed: 0, shard_size: 100}``.

    Attributes:
        seed: seed of the deal.
        validation: share of every client's samples that is set aside and never trained on.
        tests: samples of the test part that every client is dealt, in the proportions of the classes that it trains on.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"tests"})

    seed: Seed = 0
    validation: PartShare = 0.0
    tests: Natural = 0


class PartitionSpec(Spec):
    """One deal of a dataset's training part to clients."""

    stage: ClassVar[str] = "partition"
    rule: ClassVar[str] = "partition_data"
    called: ClassVar[str] = "{dataset}-{partition.name}"
    rooms: ClassVar[Mapping[str, str]] = {"partition": "data/partitions"}

    dataset: str
    partition: PartitionChoice

    def seedless(self) -> "PartitionSpec":
        """Return the deal of seed 0: deals that differ by their seed look alike."""
        return self.model_copy(update={"partition": self.partition.model_copy(update={"seed": 0})})
