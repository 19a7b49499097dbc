"""What every way of dealing a training set to clients offers."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

Integers = NDArray[np.int64]


class Partition(Protocol):
    """A way of dealing. Its dataclass fields are its settings; the seed is not one, it comes as the draws."""

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Deal samples to clients.

        Args:
            labels: int64, [N], labels of the training part.
            draws: source of all random choices.

        Returns:
            For each client the int64 indices of its samples; no index occurs twice.
        """
        ...


@runtime_checkable
class GroupPartition(Protocol):
    """A way of dealing that looks at who made the samples instead of at their labels."""

    def deal_groups(self, groups: Integers, draws: Draws) -> list[Integers]:
        """Deal samples to clients, like ``Partition.deal``.

        Args:
            groups: int64, [N], the same number for samples of the training part that belong together (one writer).
            draws: source of all random choices.
        """
        ...


def require_positive(kind: str, **settings: object) -> None:
    """Check that the settings of partition ``kind`` are whole numbers above zero.

    Raises:
        UserError: with the first setting that is not.
    """
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"partition {kind}: {name} must be a whole number above 0, not {value!r}")
