"""The clients of a training sweep: their samples, rates and private facts, and who takes part in a round."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset
from leaklab.defenses.base import ClientContext
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Visit
from leaklab.federated.sweep import Part, nominal_rates, sampled_clients
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec


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
    images: Tensor
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
            UserError: a client has no samples, or the rates do not fit the number of clients.
        """
        empty = [number for number, client in enumerate(clients) if len(client) == 0]
        if empty:
            raise UserError(f"client {empty[0]} of the partition has no samples: choose another partition")
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
