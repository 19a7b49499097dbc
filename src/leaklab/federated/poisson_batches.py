"""Poisson batches: each sample joins each step's batch by a draw of its own, as the privacy accountant assumes."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.data.augmentations.base import Augmentation
from leaklab.data.augmentations.none import NoAugmentation
from leaklab.federated.batches import Batch, Visit
from leaklab.records.streams import stream


def drawn_samples(visit: Visit, local_steps: int, batch_size: int) -> list[Tensor]:
    """Return the positions of every step's samples: each of the client's n with probability min(1, B / n)."""
    draws = stream(visit.seed, "client", visit.client, "round", visit.round, "poisson batches")
    rate = min(1.0, batch_size / len(visit.samples))
    return [visit.samples[draws.uniform(len(visit.samples)) < rate] for _ in range(local_steps)]


def poisson_stream(
    images: Tensor,
    labels: Tensor,
    visits: Sequence[Visit],
    local_steps: int,
    batch_size: int,
    augmentation: Augmentation | None = None,
) -> Iterator[Batch]:
    """Yield the batches of G visits, filled up to the largest of a step; like ``batches.batch_stream`` without masks.

    Args:
        images: normalised training images [N, C, H, W].
        labels: [N].
        visits: the G groups.
        local_steps: E.
        batch_size: B, the expected number of samples of a client that has so many.
        augmentation: how each visit's images are changed; None and ``none`` leave them alone.
    """
    drawn = [drawn_samples(visit, local_steps, batch_size) for visit in visits]
    plain = augmentation is None or isinstance(augmentation, NoAugmentation)
    draws = [] if plain else [visit.augmentation_draws() for visit in visits]
    for step in range(local_steps):
        chosen = [own[step].to(images.device) for own in drawn]
        held = [images[own] for own in chosen]
        if augmentation is not None and draws:
            held = [augmentation.apply(own, draw) if len(own) else own for own, draw in zip(held, draws, strict=True)]
        most = max(1, *(len(own) for own in chosen))
        yield Batch(
            images=torch.stack([_filled(own, most) for own in held]),
            labels=torch.stack([_filled(labels[own], most) for own in chosen]),
            masks={},
            present=torch.stack([_filled(images.new_ones(len(own)), most) for own in chosen]),
            expected=min(batch_size, *(len(visit.samples) for visit in visits)),
        )


def _filled(values: Tensor, count: int) -> Tensor:
    """Return ``values`` [n, ...] with zeros behind them, [count, ...]."""
    return F.pad(values, [0, 0] * (values.dim() - 1) + [0, count - len(values)])
