"""Spec of a partition: how the training data are dealt to clients."""

from typing import ClassVar

from leaklab.records.bounds import Natural, PartShare, Seed
from leaklab.records.record import Component, Record


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


class PartitionSpec(Record):
    """One deal of a dataset's training part to clients."""

    dataset: str
    partition: PartitionChoice
