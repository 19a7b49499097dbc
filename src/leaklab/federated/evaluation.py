"""Tests of global models on a part of the data, and of every client on a split of its own around local training."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from leaklab.data.dataset import Dataset
from leaklab.data.photographs import Images, parts_of
from leaklab.federated.algorithms.base import Tensors
from leaklab.federated.forms.dense import DenseNetwork
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.optimizers import Weights
from leaklab.federated.population import Piece
from leaklab.records.errors import UserError

# Test accuracy and loss of many models at once.

# larger batches fall out of the cache (measured on the small CNN and the MLP)
BATCH, DENSE_BATCH = 100, 500


@dataclass(frozen=True)
class Evaluation:
    """Of R models: ``accuracy`` in percent [R] and mean cross-entropy ``loss`` [R], both float64 on the CPU."""

    accuracy: Tensor
    loss: Tensor


@torch.no_grad()
def evaluate(network: TrainableNetwork, weights: Weights, images: Images, labels: Tensor, chunk: int) -> Evaluation:
    """Evaluate R models, ``chunk`` at a time, in evaluation state (no dropout).

    Args:
        network: the network.
        weights: by name, [R, ...].
        images: normalised, [N, C, H, W], or photographs, which are opened a batch at a time.
        labels: [N].
        chunk: models in one forward pass.
    """
    models = len(next(iter(weights.values())))
    size = DENSE_BATCH if isinstance(network, DenseNetwork) else BATCH
    correct = torch.zeros(models, dtype=torch.int64, device=labels.device)
    loss = torch.zeros(models, dtype=torch.float64, device=labels.device)
    for start in range(0, models, chunk):
        part = slice(start, start + chunk)
        some = {name: value[part] for name, value in weights.items()}
        for batch, targets in zip(parts_of(images, size), torch.split(labels, size), strict=True):
            logits = network.logits(some, batch[None], {})
            repeated = targets.expand(len(logits), -1)
            correct[part] += (logits.argmax(1) == repeated).sum(1)
            loss[part] += F.cross_entropy(logits, repeated, reduction="none").double().sum(1)
    return Evaluation((100 * correct.double() / len(labels)).cpu(), (loss / len(labels)).cpu())


def numbers_of(found: Mapping[str, Evaluation], place: int) -> dict[str, float]:
    """Return accuracy and loss of one model on every evaluated part."""
    numbers = {}
    for part, result in found.items():
        numbers[f"{part}_accuracy"] = float(result.accuracy[place])
        numbers[f"{part}_loss"] = float(result.loss[place])
    return numbers


def set_aside(
    dataset: Dataset, aside: Sequence[Tensor], dtype: torch.dtype, device: torch.device
) -> tuple[Images, Tensor]:
    """Return the normalised images and the labels of all that clients set aside, client after client.

    Args:
        dataset: of the training.
        aside: positions in the training part, one tensor a client.
        dtype: of the images.
        device: where they are tested.

    Raises:
        UserError: there are none, or the deal does not fit the data.
    """
    held = torch.cat([own.long() for own in aside]) if aside else torch.empty(0, dtype=torch.int64)
    if not len(held):
        raise UserError(
            "evaluate: validation needs samples that clients set aside, and there are none: set partition.validation "
            "higher"
        )
    if int(held.max()) >= len(dataset.train_labels):
        raise UserError(
            f"the deal names training image {int(held.max())}, but {dataset.name} has {len(dataset.train_labels)}: "
            "delete the partition's run and run snakemake again"
        )
    return dataset.normalised(dataset.train_images[held].to(device), dtype), dataset.train_labels[held].to(device)


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
    images: Images
    labels: Tensor
    samples: Sequence[Tensor]
    chunk: int
    seconds: float = field(default=0.0, init=False)

    @classmethod
    def of(
        cls, network: TrainableNetwork, dataset: Dataset, part: tuple[Images, Tensor], samples: Sequence[Tensor],
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
