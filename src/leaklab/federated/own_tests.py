"""Tests of every client on a test split of its own, before and after local training."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset
from leaklab.federated.algorithms.base import Tensors
from leaklab.federated.evaluation import evaluate
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.sweep import Piece
from leaklab.records.errors import UserError

WHEN = ("before", "after")
NUMBERS = ("accuracy", "loss")


@dataclass(eq=False)
class Tally:
    """Accuracy (percent) and loss of every client by (when, number), [R, N], float64; what was not tested is NaN."""

    values: dict[tuple[str, str], Tensor]

    def means(self, replicate: int) -> dict[str, float]:
        """Return a replicate's means over clients, by column of the sweep's table."""
        return {f"own_{when}_{name}": float(value[replicate].mean()) for (when, name), value in self.values.items()}


@dataclass(eq=False)
class OwnTests:
    """The clients' test splits.

    Attributes:
        network: the form that is tested.
        images: normalised test images.
        labels: their labels.
        samples: positions of each client's test images.
        chunk: models in one forward pass.
        seconds: wall time of the tests so far.
    """

    network: TrainableNetwork
    images: Tensor
    labels: Tensor
    samples: Sequence[Tensor]
    chunk: int
    seconds: float = field(default=0.0, init=False)

    @classmethod
    def of(
        cls, network: TrainableNetwork, dataset: Dataset, part: tuple[Tensor, Tensor], samples: Sequence[Tensor],
        clients: int, chunk: int,
    ) -> "OwnTests":  # fmt: skip
        """Gather the splits; ``part`` has the normalised images and the labels of the test part.

        Raises:
            UserError: the deal has no test split for every client, or one that does not fit the data.
        """
        if len(samples) != clients or not all(len(own) for own in samples):
            raise UserError("evaluate: own-test needs a test split for every client: set partition.tests above 0")
        most = max(int(own.max()) for own in samples)
        if most >= len(part[1]):
            raise UserError(
                f"the deal names test image {most}, but {dataset.name} has {len(part[1])}: delete the partition's run "
                "and run snakemake again"
            )
        return cls(network, *part, [own.to(part[1].device) for own in samples], chunk)

    def tally(self, replicates: int) -> Tally:
        """Return an empty tally."""
        shape = replicates, len(self.samples)
        return Tally({(w, n): torch.full(shape, torch.nan, dtype=torch.float64) for w in WHEN for n in NUMBERS})

    def add(self, tally: Tally, when: str, piece: Piece, weights: Tensors, settings: int) -> None:
        """Test the models of a piece, each on the split of its client.

        Args:
            tally: where the numbers go.
            when: ``before`` or ``after`` local training.
            piece: which models.
            weights: of the networks, by name, [M, ...].
            settings: settings in the sweep.
        """
        started = time.perf_counter()
        for part, rows, models in piece.places(settings):
            client, own = part.visit.client, {name: value[models] for name, value in weights.items()}
            held = self.samples[client]
            found = evaluate(self.network, own, self.images[held], self.labels[held], self.chunk)
            tally.values[when, "accuracy"][rows, client] = found.accuracy
            tally.values[when, "loss"][rows, client] = found.loss
        self.seconds += time.perf_counter() - started
