"""How the models of a sweep are ordered and cut into pieces that train together.

Replicate r = s * C + c has seed s and setting c (one entry of the spec's rates). In a round every seed samples its
clients; a visit (seed, client) is shared by the C settings, which see the same batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset
from leaklab.data.photographs import Images
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Visit
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.training import TrainSpec


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


# The clients of a training sweep: their samples, rates and private facts, and who takes part in a round.


@dataclass(frozen=True, eq=False)
class Population:
    """All N clients of a partition, under a spec.

    Attributes:
        spec: the sweep.
        images: normalised images of all clients together, on the training device.
        labels: their labels.
        samples: positions of each client's samples in ``images``.
        class_counts: distinct classes of each client.
        rates: for every setting the initial nominal rate of every client.
        algorithm: gives clients their weight in the mean.
        factors: factor of every client's rate under the algorithm (p_k N for scheme 1).
    """

    spec: TrainSpec
    images: Images
    labels: Tensor
    samples: Sequence[Tensor]
    class_counts: Sequence[int]
    rates: Sequence[Sequence[float]]
    algorithm: Algorithm
    factors: Sequence[float]

    @classmethod
    def of(
        cls, spec: TrainSpec, dataset: Dataset, clients: Sequence[Tensor], algorithm: Algorithm, device: torch.device
    ) -> "Population":
        """Gather the clients' data; images that no client holds are left out.

        Raises:
            UserError: a client has no samples or is not there, or the rates do not fit the number of clients.
        """
        empty = [number for number, client in enumerate(clients) if len(client) == 0]
        if empty:
            raise UserError(f"client {empty[0]} of the partition has no samples: choose another partition")
        absent = [client for client in spec.sends if client >= len(clients)]
        if absent:
            last = len(clients) - 1
            raise UserError(f"sends: there are {last + 1} clients, numbers 0 to {last}: there is no client {absent[0]}")
        used = torch.unique(torch.cat(list(clients)))
        labels = dataset.train_labels[used]
        samples = [torch.searchsorted(used, client) for client in clients]
        return cls(
            spec=spec,
            images=dataset.normalised(dataset.train_images[used].to(device), getattr(torch, spec.dtype)),
            labels=labels.to(device),
            samples=samples,
            class_counts=[len(torch.unique(labels[held])) for held in samples],
            rates=nominal_rates(spec, len(clients)),
            algorithm=algorithm,
            factors=algorithm.rate_factors([len(client) for client in clients]),
        )

    def parts(self, round_index: int) -> list[Part]:
        """Return who takes part in a round, for every seed, and with which weight in the average."""
        parts = []
        for seed_index, seed in enumerate(self.spec.seeds):
            chosen = sampled_clients(seed, round_index, len(self.samples), self.spec.clients_per_round)
            weights = self.algorithm.shares([len(self.samples[client]) for client in chosen])
            for client, weight in zip(chosen, weights, strict=True):
                parts.append(Part(Visit(seed, client, round_index, self.samples[client]), seed_index, weight))
        return parts

    def others(self, parts: Sequence[Part]) -> list[Part]:
        """Return the clients that are missing in a round's parts, for every seed in them, without weight."""
        found = []
        for own in [list(own) for _, own in groupby(parts, key=lambda part: part.seed_index)]:
            missing = sorted(set(range(len(self.samples))) - {part.visit.client for part in own})
            first = own[0].visit
            visits = [Visit(first.seed, client, first.round, self.samples[client]) for client in missing]
            found += [Part(visit, own[0].seed_index, 0.0) for visit in visits]
        return found

    def clipped(self, defense: Defense) -> int:
        """Return for how many clients a defense cuts a value."""
        visits = [Visit(self.spec.seeds[0], client, 0, held) for client, held in enumerate(self.samples)]
        return sum(defense.clipped(self.context(visit, 0, 1.0)) for visit in visits)

    def context(self, visit: Visit, setting: int, schedule_factor: float) -> ClientContext:
        """Return what the visiting client knows under ``setting``; ``schedule_factor`` is that of the round."""
        return ClientContext(
            scaled_rate=self.factors[visit.client] * self.rates[setting][visit.client] * schedule_factor,
            seed=visit.seed,
            client=visit.client,
            round=visit.round,
            num_classes=self.class_counts[visit.client],
            mean_num_classes=sum(self.class_counts) / len(self.class_counts),
        )
