"""Every label is spread over the clients in proportions of its own."""

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


PLUGIN = Dirichlet
