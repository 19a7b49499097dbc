"""What every way of dealing a training set to clients offers."""

from typing import Protocol

from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream


class Partition(Protocol):
    """A way of dealing. Its dataclass fields are its settings; the seed is not one, it comes as the stream."""

    def deal(self, labels: Tensor, stream: Stream) -> list[Tensor]:
        """Deal samples to clients.

        Args:
            labels: int64, [N], labels of the training part.
            stream: source of all random choices.

        Returns:
            For each client the int64 indices of its samples; no index occurs twice.
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
