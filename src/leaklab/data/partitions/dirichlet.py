"""Every label is spread over the clients in proportions of its own."""

from dataclasses import dataclass

import torch
from scipy.special import gammaincinv
from torch import Tensor

from leaklab.data.partitions.base import require_positive
from leaklab.records.bounds import Count, Positive
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

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

    def deal(self, labels: Tensor, stream: Stream) -> list[Tensor]:
        """Return the clients' indices, label after label; together they are all N samples.

        Raises:
            UserError: too few samples for the minimum, or no draw in 1000 reached it.
        """
        counts = torch.bincount(labels)
        sizes = self._sizes(counts, stream)
        members = torch.split(torch.argsort(labels, stable=True), counts.tolist())
        shuffled = [indices[stream.permutation(len(indices))] for indices in members]
        parts = [torch.split(indices, row.tolist()) for indices, row in zip(shuffled, sizes, strict=True)]
        return [torch.cat(client) for client in zip(*parts, strict=True)]

    def _sizes(self, counts: Tensor, stream: Stream) -> Tensor:
        """Return the samples of each label for each client, int64 [labels, clients]; rows add up to ``counts``."""
        if (samples := int(counts.sum())) < self.clients * self.minimum:
            raise UserError(
                f"partition dirichlet: {samples} samples are too few for {self.clients} clients with at least "
                f"{self.minimum} each: ask for fewer clients or a smaller minimum"
            )
        for _ in range(ATTEMPTS):
            ends = (self._shares(len(counts), stream).cumsum(1) * counts[:, None]).round().long()
            ends[:, -1] = counts  # whatever the rounding errors of the sum
            sizes = ends.diff(dim=1, prepend=torch.zeros(len(counts), 1, dtype=torch.int64))
            if int(sizes.sum(0).min()) >= self.minimum:
                return sizes
        raise UserError(
            f"partition dirichlet: in {ATTEMPTS} draws with concentration {self.concentration} some client always had "
            f"fewer than {self.minimum} samples: ask for fewer clients, a smaller minimum or a larger concentration"
        )

    def _shares(self, labels: int, stream: Stream) -> Tensor:
        """Return float64 [labels, clients]; rows add up to 1: gamma variates, by inversion of their law, normalized."""
        gamma = torch.from_numpy(gammaincinv(self.concentration, stream.uniform(labels, self.clients).numpy()))
        return gamma / gamma.sum(1, keepdim=True)


PLUGIN = Dirichlet
