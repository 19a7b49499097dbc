"""Every client draws from the same distribution."""

from dataclasses import dataclass

import numpy as np

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.records.bounds import Count
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError


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


PLUGIN = Iid
