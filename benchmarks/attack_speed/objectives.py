"""What is minimised, in the plainest form: the loop of one contestant, and the oracle for all."""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TV_WEIGHT = 0.2
"""breaching's own, for its form of the total variation."""


def gradients(network: nn.Module, images: Tensor, targets: Tensor, graph: bool = False) -> tuple[Tensor, ...]:
    """Return the gradient of the mean cross-entropy of images [B, C, H, W], targets [B] or [B, K]."""
    return torch.autograd.grad(
        F.cross_entropy(network(images), targets), list(network.parameters()), create_graph=graph
    )


def objective(attack: str, network: nn.Module, observed: Sequence[Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """Return the value that an attack minimises, a scalar with a graph.

    Args:
        attack: ``dlg`` or ``ig``.
        network: its parameters ask for gradients.
        observed: one gradient per parameter.
        images: [B, C, H, W], on the [0, 1] scale.
        labels: for ``dlg`` logits [B, K], for ``ig`` classes [B].
    """
    if attack == "dlg":
        found = gradients(network, images, torch.softmax(labels, -1), graph=True)
        return torch.stack([((value - seen) ** 2).sum() for value, seen in zip(found, observed, strict=True)]).sum()
    found = gradients(network, images, labels, graph=True)
    product = _sum(value * seen for value, seen in zip(found, observed, strict=True))
    lengths = _sum(value * value for value in found) * _sum(seen * seen for seen in observed)
    return 1 - product / lengths.sqrt() + TV_WEIGHT * border_variation(images[None])[0]


def border_variation(images: Tensor) -> Tensor:
    """Return the mean of |right - pixel| + |below - pixel| of each trial [S], with zeros beyond the border.

    This is what breaching adds to its objective. It is not this project's prior, which has no border: here all
    contestants minimise the same. Images are [S, B, C, H, W].
    """
    framed = F.pad(images, (0, 1, 0, 1))
    across, down = framed.diff(dim=-1)[..., :-1, :], framed.diff(dim=-2)[..., :-1]
    return (across.abs() + down.abs()).flatten(1).mean(1)


def _sum(values: Iterable[Tensor]) -> Tensor:
    return torch.stack([value.sum() for value in values]).sum()
