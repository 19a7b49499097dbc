"""Spec of a numerical check of a statement."""

from pydantic import model_validator

from leaklab.records.bounds import Seed
from leaklab.records.partition_spec import PartitionChoice
from leaklab.records.record import Component, Record


class CheckSpec(Record):
    """A numerical check of a statement (theorem, algorithm, protocol, drawing); no model is trained on data.

    Attributes:
        check: plug-in in ``theory/``.
        dataset: with ``partition``: the check is told how many samples and classes each client of this deal has.
        seed: seed of all the check's draws.
    """

    check: Component
    dataset: str = ""
    partition: PartitionChoice | None = None
    seed: Seed = 0

    @model_validator(mode="after")
    def _dataset_with_partition(self) -> "CheckSpec":
        if bool(self.dataset) != (self.partition is not None):
            raise ValueError("a check has either both 'dataset' and 'partition' or neither")
        return self
