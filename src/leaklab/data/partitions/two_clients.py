"""Two clients with equally many samples but two against eight labels."""

from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.data.partitions.shards import cut, whole
from leaklab.records.bounds import Count
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

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


PLUGIN = TwoClients
