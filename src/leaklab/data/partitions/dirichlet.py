"""Labels in proportions from a Dirichlet law: those of each label over the clients, or of each client over labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from leaklab.data.partitions.base import Integers, require_positive
from leaklab.data.partitions.shards import divide
from leaklab.records.bounds import Count, Positive
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError

Floats = NDArray[np.float64]
# below, most gamma draws underflow to zero and the proportions with them
SMALLEST_CONCENTRATION = 0.01
ATTEMPTS = 1000


@dataclass(frozen=True)
class Dirichlet:
    """Draw each label's shares of the clients from a symmetric Dirichlet distribution and deal all of its samples.

    If a client would get fewer than ``minimum`` samples, the shares of all labels are drawn anew.

    Source: LRP appendix D (concentration 0.5, 100 clients); the minimum is not stated there.

    Attributes:
        concentration: the smaller, the fewer labels a client has; at least 0.01.
        clients: number of clients.
        minimum: fewest samples per client.
    """

    concentration: Positive = 0.5
    clients: Count = 100
    minimum: Count = 10

    def __post_init__(self) -> None:
        require_positive("dirichlet", clients=self.clients, minimum=self.minimum)
        value = self.concentration
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= SMALLEST_CONCENTRATION:
            raise UserError(
                f"partition dirichlet: concentration must be at least {SMALLEST_CONCENTRATION}, not {value!r}"
            )

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, label after label; together they are all N samples.

        Raises:
            UserError: too few samples for the minimum, or no draw in 1000 reached it.
        """
        counts = np.bincount(labels)
        sizes = self._sizes(counts, draws)
        members = divide(np.argsort(labels, kind="stable"), counts)
        shuffled = [indices[draws.permutation(len(indices))] for indices in members]
        parts = [divide(indices, row) for indices, row in zip(shuffled, sizes, strict=True)]
        return [np.concatenate(client) for client in zip(*parts, strict=True)]

    def _sizes(self, counts: Integers, draws: Draws) -> Integers:
        """Return the samples of each label for each client, int64 [labels, clients]; rows add up to ``counts``."""
        if (samples := int(counts.sum())) < self.clients * self.minimum:
            raise UserError(
                f"partition dirichlet: {samples} samples are too few for {self.clients} clients with at least "
                f"{self.minimum} each: ask for fewer clients or a smaller minimum"
            )
        for _ in range(ATTEMPTS):
            sizes = _rounded(self._shares(len(counts), draws), counts)
            if int(sizes.sum(0).min()) >= self.minimum:
                return sizes
        raise UserError(
            f"partition dirichlet: in {ATTEMPTS} draws with concentration {self.concentration} some client always had "
            f"fewer than {self.minimum} samples: ask for fewer clients, a smaller minimum or a larger concentration"
        )

    def _shares(self, labels: int, draws: Draws) -> Floats:
        """Return float64 [labels, clients]; rows add up to 1: gamma variates, by inversion of their law, normalized.

        A row whose variates all underflowed is NaN.
        """
        gamma = gammaincinv(self.concentration, draws.uniform(labels, self.clients))
        with np.errstate(invalid="ignore"):
            return np.asarray(gamma / gamma.sum(1, keepdims=True))


def _rounded(shares: Floats, counts: Integers) -> Integers:
    """Return whole numbers of samples, int64 [labels, clients], that add up to ``counts`` in each row.

    A row of NaN takes more from the first client than there is, so that no minimum is reached; an only client gets all.
    """
    ends = np.nan_to_num((shares.cumsum(1) * counts[:, None]).round(), nan=-counts.sum()).astype(np.int64)
    ends[:, -1] = counts  # whatever the rounding errors of the sum
    return np.diff(ends, axis=1, prepend=0)


# The other way round: proportions of every client, and clients of one size.


@dataclass(frozen=True)
class ClientDirichlet:
    """Draw each client's shares of the labels from a symmetric Dirichlet distribution; all clients get equally many.

    Clients take turns, one sample a turn. Each draws the label by its own shares among the labels of which samples are
    left, and where it wants none of these, by how many are left of each. What does not fill another sample for every
    client is not dealt.

    Source: "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification" (Hsu, Qi and
    Brown 2019), section 3, with equal shares for a prior; OUTPOST section V-A has concentration 5, 100 clients and 1 %
    of the samples for each.

    Attributes:
        concentration: the smaller, the fewer labels a client has; at least 0.01.
        clients: number of clients.
    """

    concentration: Positive = 5.0
    clients: Count = 100

    def __post_init__(self) -> None:
        require_positive("client-dirichlet", clients=self.clients)
        Dirichlet(self.concentration, self.clients)  # which refuses what underflows

    def deal(self, labels: Integers, draws: Draws) -> list[Integers]:
        """Return the clients' indices, each floor(N / clients) long.

        Raises:
            UserError: fewer samples than clients.
        """
        size = len(labels) // self.clients
        if size == 0:
            raise UserError(
                f"partition client-dirichlet: {self.clients} clients but {len(labels)} samples: ask for fewer clients"
            )
        left = np.bincount(labels)
        # a client that wants nothing, as all of its variates underflowed, wants whatever is there
        wanted = np.nan_to_num(Dirichlet(self.concentration, len(left))._shares(self.clients, draws))
        members = divide(np.argsort(labels, kind="stable"), left)
        shuffled = [indices[draws.permutation(len(indices))] for indices in members]
        dealt = np.empty((self.clients, size), dtype=np.int64)
        for turn, drawn in enumerate(draws.uniform(size, self.clients)):
            for client, number in enumerate(drawn):
                label = _drawn_label(wanted[client], left, number)
                left[label] -= 1
                dealt[client, turn] = shuffled[label][left[label]]
        return list(dealt)


def _drawn_label(shares: Floats, left: Integers, number: float) -> int:
    """Return the label at a number in [0, 1) among those that are left, by their shares or, if all are 0, by count."""
    weights = np.where(left > 0, shares, 0.0).cumsum()
    if not weights[-1] > 0:
        weights = left.cumsum()
    place = np.searchsorted(weights, number * weights[-1], side="right")
    return int(min(place, np.flatnonzero(left)[-1]))  # where a product is rounded up to the sum


PLUGINS = {
    "dirichlet": Dirichlet,
    "client-dirichlet": ClientDirichlet,
}
