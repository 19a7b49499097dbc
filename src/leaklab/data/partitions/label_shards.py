"""Clients with few labels and unequal amounts of data."""

from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.data.partitions.shards import cut, divide
from leaklab.records.bounds import Count
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class LabelShards:
    """Sort by label, cut into shards and deal them, each client a number of its own.

    Numbers of shards are drawn uniformly from smallest..largest and then repaired by random moves of one shard until
    they add up; handing out shards one by one instead would leave almost all clients near the mean. The last shard
    may be smaller than ``shard_size``, so that all data are used.

    The printed settings of CIFAR (50,000 samples in shards of 50) and ImageNet have more shards than 100 clients may
    take within the printed limits. With ``use_all`` off the numbers stay as drawn and surplus shards are dealt to
    nobody; only more shards than there are would be repaired.

    Source: LRP section 5.1; how the numbers are drawn is not stated there.

    Attributes:
        clients: number of clients.
        shard_size: samples per shard.
        smallest: fewest shards per client.
        largest: most shards per client.
        use_all: deal every shard.
    """

    clients: Count = 100
    shard_size: Count = 200
    smallest: Count = 1
    largest: Count = 9
    use_all: bool = True

    def __post_init__(self) -> None:
        limits = {"smallest": self.smallest, "largest": self.largest}
        require_positive("label-shards", clients=self.clients, shard_size=self.shard_size, **limits)
        if not isinstance(self.use_all, bool):
            raise UserError(f"partition label-shards: use_all must be true or false, not {self.use_all!r}")

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices; with ``use_all`` they are together all N samples.

        Raises:
            UserError: no numbers within the limits add up to the number of shards, or there are too few shards.
        """
        shards = cut(labels, self.shard_size)
        self._check(len(labels), len(shards))
        counts = self._counts(len(shards), draws)
        owners = divide(draws.permutation(len(shards))[: int(counts.sum())], counts)
        return [np.concatenate([shards[int(k)] for k in owned]) for owned in owners]

    def _counts(self, total: int, draws: Draws) -> Integers:
        counts = draws.integers(self.smallest, self.largest + 1, self.clients)
        while missing := self._missing(total - int(counts.sum())):
            movable = np.flatnonzero(counts < self.largest if missing > 0 else counts > self.smallest)
            client = movable[draws.integers(0, len(movable))]
            counts[client] += 1 if missing > 0 else -1
        return counts

    def _missing(self, undealt: int) -> int:
        """Return by how many shards the numbers must grow, negative if they must shrink."""
        return undealt if self.use_all else min(undealt, 0)

    def _check(self, samples: int, shards: int) -> None:
        low, high = self.clients * self.smallest, self.clients * self.largest
        if low <= shards <= high or (low <= shards and not self.use_all):
            return
        remedy = ", or set use_all to false to leave some unused" if shards > high else ""
        raise UserError(
            f"partition label-shards: {samples} samples in shards of {self.shard_size} are {shards} shards, but "
            f"{self.clients} clients with {self.smallest} to {self.largest} shards each take {low} to {high}: "
            f"change shard_size, clients or the limits{remedy}"
        )


PLUGIN = LabelShards
