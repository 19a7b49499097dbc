"""Clients are groups of people: what one writer wrote stays together."""

from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.data.partitions.shards import divide
from leaklab.records.bounds import Count
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class ByWriter:
    """One shard per writer; the shards are shuffled and dealt equally, to within one shard.

    All samples are used. If the number of writers is no multiple of ``clients``, the first clients have one more.

    Source: LRP appendix D (FEMNIST, 100 clients); writers per client are not stated there.

    Attributes:
        clients: number of clients.
    """

    clients: Count = 100

    def __post_init__(self) -> None:
        require_positive("by-writer", clients=self.clients)

    def deal_groups(self, groups: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, writer after writer.

        Args:
            groups: int64, [N], who wrote each sample of the training part; any numbers.
            draws: source of all random choices.

        Raises:
            UserError: fewer writers than clients.
        """
        samples = np.unique(groups, return_counts=True)[1]
        if len(samples) < self.clients:
            raise UserError(
                f"partition by-writer: {self.clients} clients but {len(samples)} writers: ask for fewer clients"
            )
        shards = divide(np.argsort(groups, kind="stable"), samples)
        owners = np.array_split(draws.permutation(len(shards)), self.clients)
        return [np.concatenate([shards[int(writer)] for writer in owned]) for owned in owners]


PLUGIN = ByWriter
