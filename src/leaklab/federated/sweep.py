"""How the models of a sweep are ordered and cut into pieces that train together.

Replicate r = s * C + c has seed s and setting c (one entry of the spec's rates). In a round every seed samples its
clients; a visit (seed, client) is shared by the C settings, which see the same batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from leaklab.federated.batches import Visit
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.train_spec import TrainSpec


@dataclass(frozen=True)
class Part:
    """One visit with all its settings.

    Attributes:
        visit: whose batches.
        seed_index: position of the visit's seed in the spec.
        weight: share of the client's weights in the seed's next global weights.
    """

    visit: Visit
    seed_index: int
    weight: float


@dataclass(frozen=True)
class Piece:
    """Models that train together: every part of ``parts`` with the settings ``first`` ... ``last - 1``.

    Model m belongs to part m // (last - first) and setting first + m % (last - first).
    """

    parts: tuple[Part, ...]
    first: int
    last: int

    def replicates(self, part: Part, settings: int) -> range:
        """Return the replicates of one part, of ``settings`` settings in the sweep."""
        start = part.seed_index * settings
        return range(start + self.first, start + self.last)

    def places(self, settings: int) -> Iterator[tuple[Part, slice, slice]]:
        """Yield every part with its replicates in the sweep and its models in the piece."""
        width = self.last - self.first
        for number, part in enumerate(self.parts):
            rows = self.replicates(part, settings)
            yield part, slice(rows.start, rows.stop), slice(number * width, (number + 1) * width)


def pieces(parts: Sequence[Part], settings: int, chunk: int, batch_size: int) -> Iterator[Piece]:
    """Cut a round into pieces of about ``chunk`` models (never more, unless the chunk is smaller than 1).

    Only visits with batches of equal size go together. Where the chunk allows, a visit's settings stay together,
    because they share their batches.
    """
    spans = -(-settings // max(1, chunk))
    bounds = [settings * span // spans for span in range(spans + 1)]
    together = max(1, chunk // settings)

    def size(part: Part) -> int:
        return min(batch_size, len(part.visit.samples))

    for _, same_size in groupby(sorted(parts, key=size), key=size):
        group = tuple(same_size)
        for start in range(0, len(group), together):
            for first, last in pairwise(bounds):
                yield Piece(group[start : start + together], first, last)


def sampled_clients(seed: int, round_index: int, num_clients: int, per_round: int | None) -> list[int]:
    """Return the clients of a round in ascending order: a uniform draw without replacement, or all.

    Raises:
        UserError: more clients per round than there are.
    """
    if per_round is None or per_round == num_clients:
        return list(range(num_clients))
    if per_round > num_clients:
        raise UserError(f"clients_per_round is {per_round}, but the partition has {num_clients} clients: lower it")
    return sorted(stream(seed, "round", round_index, "clients").permutation(num_clients)[:per_round].tolist())


def nominal_rates(spec: TrainSpec, num_clients: int) -> list[tuple[float, ...]]:
    """Return for every setting the initial rate of every client.

    Raises:
        UserError: a setting has neither one rate nor one per client.
    """
    for rates in spec.rates:
        if len(rates) not in (1, num_clients):
            raise UserError(
                f"a setting of 'rates' has {len(rates)} rates for {num_clients} clients: give one, or one per client"
            )
    return [rates * num_clients if len(rates) == 1 else rates for rates in spec.rates]


def rate_columns(rates: Sequence[Sequence[float]], setting: int) -> dict[str, float | None]:
    """Return a setting's rates as given; a setting with one rate for all leaves the other columns empty."""
    width, given = max(map(len, rates)), rates[setting]
    return {f"rate_{i}": given[i] if i < len(given) else None for i in range(width)}
