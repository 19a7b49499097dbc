"""Spec of a numerical check of a statement."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import model_validator

from leaklab.records.bounds import Seed
from leaklab.records.partition_spec import PartitionChoice, PartitionSpec
from leaklab.records.plugins import available
from leaklab.records.record import Component
from leaklab.records.specs import Code, Spec

THEORY = "theory"
TOLD = ("models", "defenses", "federated/algorithms", "federated/optimizers", "federated/schedules")
"""Rooms of which the settings of a check name plug-ins."""


class CheckSpec(Spec):
    """A numerical check of a statement (theorem, algorithm, protocol, drawing); no model is trained on data.

    Attributes:
        check: plug-in in ``theory/``.
        dataset: with ``partition``: the check is told how many samples and classes each client of this deal has.
        seed: seed of all the check's draws.
    """

    stage: ClassVar[str] = "check"
    rule: ClassVar[str] = "check_theory"
    called: ClassVar[str] = "{check.name}"
    rooms: ClassVar[Mapping[str, str]] = {"check": THEORY}
    block: ClassVar[str] = "check"

    check: Component
    dataset: str = ""
    partition: PartitionChoice | None = None
    seed: Seed = 0

    @model_validator(mode="after")
    def _dataset_with_partition(self) -> "CheckSpec":
        if bool(self.dataset) != (self.partition is not None):
            raise ValueError("a check has either both 'dataset' and 'partition' or neither")
        return self

    def needs(self) -> tuple[Spec, ...]:
        """Return the deal that it is told, if any."""
        return (PartitionSpec(dataset=self.dataset, partition=self.partition),) if self.partition else ()

    @property
    def read_dataset(self) -> str:
        """None: it is told how much each client has."""
        return ""

    def executed_plugins(self) -> Code:
        """Return the check, and what it is told to take."""
        told = (one for one in self.loadable_plugins() if one[1] in self.check.settings.values())
        return *super().executed_plugins(), *told

    def loadable_plugins(self) -> Code:
        """Return all that a check may load by a name of its own."""
        return tuple((room, name) for room in TOLD for name in available(room))
