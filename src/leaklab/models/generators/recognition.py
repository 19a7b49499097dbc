"""How well a generator keeps to the classes: a classifier trained on real data recognises a share of its images."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.generators.base import Generator
from leaklab.models.generators.training import Streams
from leaklab.records.errors import UserError

RATE = 1e-3
BATCH_SIZE = 64
IMAGES_PER_PASS = 500


def train_classifier(network: nn.Module, images: Tensor, labels: Tensor, steps: int, streams: Streams) -> nn.Module:
    """Train ``network`` in place with Adam on real images and return it in evaluation state.

    Args:
        network: a classifier with its initial weights; without dropout, which would draw from the global generator.
        images: [N, C, H, W] in [0, 1].
        labels: [N] int64.
        steps: batches of 64.
        streams: named streams; ``streams("classifier", step)`` draws a batch.

    Raises:
        UserError: the network has dropout, or its loss is not finite.
    """
    if any(isinstance(layer, nn.Dropout) and layer.p > 0 for layer in network.modules()):
        raise UserError("the classifier that judges a generator must have no dropout: choose another model")
    optimizer = torch.optim.Adam(network.requires_grad_().train().parameters(), lr=RATE)
    for step in range(steps):
        rows = streams("classifier", step).integers(0, len(images), BATCH_SIZE).to(images.device)
        loss = F.cross_entropy(network(images[rows]), labels[rows])
        if not bool(loss.isfinite()):
            raise UserError(f"the classifier that judges a generator diverged in step {step}: choose another model")
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return network.requires_grad_(requires_grad=False).eval()


def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of real images that the classifier recognises: the ceiling of ``recognised_share``."""
    with torch.no_grad():
        right = [
            network(some).argmax(1) == truth
            for some, truth in zip(
                torch.split(images, IMAGES_PER_PASS), torch.split(labels, IMAGES_PER_PASS), strict=True
            )
        ]
    return float(torch.cat(right).double().mean())


def recognised_share(generator: Generator, classifier: nn.Module, per_class: int, streams: Streams) -> Tensor:
    """Return for each class the share of its generated images that the classifier puts into it: [K], in [0, 1].

    Args:
        generator: frozen.
        classifier: in evaluation state, on the generator's device.
        per_class: images drawn for each class.
        streams: ``streams("recognition", k)`` draws the latents of class k.

    Raises:
        UserError: the generator is in training state, or no image is asked for.
    """
    generator.require_frozen()
    if per_class < 1:
        raise UserError("recognition needs at least one image per class: raise per_class")
    like = next(generator.parameters())
    shares = []
    for k in range(generator.num_classes):
        latents = streams("recognition", k).normal(per_class, generator.latent_size).to(like)
        labels = torch.full((per_class,), k, device=like.device)
        with torch.no_grad():
            images = generator.generate(latents, F.one_hot(labels, generator.num_classes).to(like))
        shares.append(accuracy(classifier, images, labels))
    return torch.tensor(shares, dtype=torch.float64)
