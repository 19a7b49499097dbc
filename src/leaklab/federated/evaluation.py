"""Test accuracy and loss of many models at once."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from leaklab.federated.dense import DenseNetwork
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.optimizers.base import Weights

# larger batches fall out of the cache (measured on the small CNN and the MLP)
BATCH, DENSE_BATCH = 100, 500


@dataclass(frozen=True)
class Evaluation:
    """Of R models: ``accuracy`` in percent [R] and mean cross-entropy ``loss`` [R], both float64 on the CPU."""

    accuracy: Tensor
    loss: Tensor


@torch.no_grad()
def evaluate(network: TrainableNetwork, weights: Weights, images: Tensor, labels: Tensor, chunk: int) -> Evaluation:
    """Evaluate R models, ``chunk`` at a time, in evaluation state (no dropout).

    Args:
        network: the network.
        weights: by name, [R, ...].
        images: normalised, [N, C, H, W].
        labels: [N].
        chunk: models in one forward pass.
    """
    models = len(next(iter(weights.values())))
    size = DENSE_BATCH if isinstance(network, DenseNetwork) else BATCH
    correct = torch.zeros(models, dtype=torch.int64, device=images.device)
    loss = torch.zeros(models, dtype=torch.float64, device=images.device)
    for start in range(0, models, chunk):
        part = slice(start, start + chunk)
        some = {name: value[part] for name, value in weights.items()}
        for batch, targets in zip(torch.split(images, size), torch.split(labels, size), strict=True):
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
