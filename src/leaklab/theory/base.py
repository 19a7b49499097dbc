"""What a check of a theorem, algorithm, protocol or drawing offers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Track = Callable[[Iterable[int], int, str], Iterable[int]]


@dataclass(frozen=True)
class Clients:
    """The private facts of all N clients of a deal.

    Attributes:
        sizes: samples n_k of each client.
        class_counts: distinct classes Y_k of each client.
    """

    sizes: tuple[int, ...]
    class_counts: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """One number that a check found.

    Attributes:
        metric: what it is.
        value: the number.
        row: what it belongs to, beside the check's own settings.
        index: place in a curve; None for a single number.
        std: sample standard deviation over ``n`` repetitions.
        n: number of repetitions.
    """

    metric: str
    value: float
    row: Mapping[str, Any] = field(default_factory=dict)
    index: int | None = None
    std: float | None = None
    n: int | None = None


class Check(Protocol):
    """A numerical check. Its dataclass fields are its settings.

    A check that measures wall time names those metrics in a class attribute ``timed``: only they may differ when it
    runs again.
    """

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the numbers.

        Args:
            seed: seed of all draws, which come from named streams.
            clients: the deal that the spec names, if any.
            track: wraps a long loop (iterable, total, label).

        Raises:
            UserError: the settings do not fit each other, or a deal is needed and none was given.
        """
        ...
