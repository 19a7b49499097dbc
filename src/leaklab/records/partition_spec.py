"""Spec of a partition: how the training data are dealt to clients."""

from typing import ClassVar

from pydantic import Field

from leaklab.records.record import Component, Record


class PartitionChoice(Component):
    """How the training data are dealt to clients: ``{name: two-clients, seed: 0, shard_size: 100}``.

    Attributes:
        seed: seed of the deal.
        validation: share of every client's samples that is set aside and never trained on.
        tests: samples of the test part that every client is dealt, in the proportions of the classes that it trains on.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"tests"})

    seed: int = 0
    validation: float = Field(default=0.0, ge=0, lt=1)
    tests: int = Field(default=0, ge=0)


class PartitionSpec(Record):
    """One deal of a dataset's training part to clients."""

    dataset: str
    partition: PartitionChoice
