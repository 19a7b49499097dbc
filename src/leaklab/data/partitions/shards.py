"""Clients with few labels and unequal amounts of data."""

from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.records.bounds import Count
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

# Shards: runs of equal length of the training set sorted by label (LRP section 5.1).


def divide(indices: Integers, sizes: Integers) -> list[Integers]:
    """Divide indices, in their order, into parts of the given sizes.

    Args:
        indices: int64, [N].
        sizes: int64, [parts], with sum N; at least one.
    """
    return np.split(indices, sizes.cumsum()[:-1])


def cut(labels: Integers, shard_size: int) -> list[Integers]:
    """Cut the indices, sorted by label and within a label in their order, into shards.

    Args:
        labels: int64, [N].
        shard_size: samples per shard; the last shard holds what is left and may be smaller.

    Returns:
        ceil(N / shard_size) index arrays that cover all samples.
    """
    return np.split(np.argsort(labels, kind="stable"), range(shard_size, len(labels), shard_size))


def whole(counts: Integers, shard_size: int, label: int) -> range:
    """Return the positions in ``cut`` of the full shards whose samples all carry ``label``.

    A shard across the border of two labels belongs to neither.

    Args:
        counts: [labels], number of samples of each label.
        shard_size: samples per shard.
        label: the label.
    """
    below = int(counts[:label].sum())
    return range(-(-below // shard_size), (below + int(counts[label])) // shard_size)


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


# Two clients with equally many samples but two against eight labels.

FEW_LABELS, SHARDS_OF_FEW = (0, 1), 4
MANY_LABELS, SHARDS_OF_MANY = tuple(range(2, 10)), 1
NEEDED = dict.fromkeys(FEW_LABELS, SHARDS_OF_FEW) | dict.fromkeys(MANY_LABELS, SHARDS_OF_MANY)


@dataclass(frozen=True)
class TwoClients:
    """Client 1: four shards of each of the labels 0 and 1; client 2: one shard of each of the labels 2 to 9.

    The data are sorted by label and cut into shards; only shards that lie wholly inside a label are dealt. Labels
    above 9 are not used.

    Source: LRP section 4.1 (MNIST, 600 shards of 100, 800 samples per client).

    Attributes:
        shard_size: samples per shard; each client gets eight shards.
    """

    shard_size: Count = 100

    def __post_init__(self) -> None:
        require_positive("two-clients", shard_size=self.shard_size)

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return two index arrays of 8 * shard_size samples.

        Raises:
            UserError: a label has too few whole shards; names the largest shard size that fits.
        """
        counts = np.bincount(labels, minlength=len(NEEDED))
        self._check(counts)
        shards = cut(labels, self.shard_size)
        return [
            np.concatenate([shards[k] for label in client for k in self._choose(counts, label, draws)])
            for client in (FEW_LABELS, MANY_LABELS)
        ]

    def _choose(self, counts: Integers, label: int, draws: Draws) -> list[int]:
        candidates = whole(counts, self.shard_size, label)
        return [candidates[int(k)] for k in draws.permutation(len(candidates))[: NEEDED[label]]]

    def _check(self, counts: Integers) -> None:
        lacking = _lacking(counts, self.shard_size)
        if lacking is None:
            return
        fitting = [
            size for size in range(min(self.shard_size - 1, int(counts.max())), 0, -1) if _lacking(counts, size) is None
        ][:1]
        raise UserError(
            f"partition two-clients: label {lacking} has {len(whole(counts, self.shard_size, lacking))} whole shards "
            f"of {self.shard_size} samples but {NEEDED[lacking]} are needed: "
            + (f"set shard_size to {fitting[0]}" if fitting else "use a dataset with the labels 0 to 9")
        )


def _lacking(counts: Integers, shard_size: int) -> int | None:
    """Return the first label that has too few whole shards."""
    return next((label for label, needed in NEEDED.items() if len(whole(counts, shard_size, label)) < needed), None)


# Every client draws from the same distribution.


@dataclass(frozen=True)
class Iid:
    """Shuffle and cut into parts of exactly equal size; the N mod ``clients`` last samples are left out.

    Source: LRP section 5.1 (IID setting: 100 clients with 600 or 500 samples).

    Attributes:
        clients: number of clients.
    """

    clients: Count = 100

    def __post_init__(self) -> None:
        require_positive("iid", clients=self.clients)

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, each floor(N / clients) long.

        Raises:
            UserError: fewer samples than clients.
        """
        size = len(labels) // self.clients
        if size == 0:
            raise UserError(f"partition iid: {self.clients} clients but {len(labels)} samples: ask for fewer clients")
        return np.split(draws.permutation(len(labels))[: size * self.clients], self.clients)


PLUGINS = {
    "iid": Iid,
    "label-shards": LabelShards,
    "two-clients": TwoClients,
}
