"""The batches and dropout masks of local training.

Common random numbers: what a client draws depends on the seed, the client and the round, and on nothing else. All
rates, models and defenses of one seed therefore see the same batches in the same order and the same dropout masks;
differences between settings are paired differences. The design is stated wherever its numbers are reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.data.augmentations import Augmentation, NoAugmentation
from leaklab.data.photographs import Images, Photographs, in_memory
from leaklab.records.purity import watched
from leaklab.records.streams import Stream, stream


@dataclass(frozen=True)
class DropoutSite:
    """A dropout layer: its drop probability and the shape of one sample's values there."""

    probability: float
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """One local step's data of G groups of models.

    Attributes:
        images: normalised, [G, B, C, H, W].
        labels: [G, B], int64.
        masks: by dropout layer, [G, B, ...]: 0 or 1 / (1 - p); empty in evaluation state.
        present: 1 where a sample takes part and 0 where it only fills the batch up, [G, B]; None: all take part.
        expected: mean number of samples that take part, by which their sum is divided; None: B.
    """

    images: Tensor
    labels: Tensor
    masks: Mapping[str, Tensor]
    present: Tensor | None = None
    expected: int | None = None

    @property
    def size(self) -> int:
        """What the sum over the samples is divided by."""
        return self.labels.shape[1] if self.expected is None else self.expected


@dataclass(frozen=True)
class Visit:
    """A client's part in one round: whoever holds the same visit sees the same batches.

    Attributes:
        seed: seed of the replicate.
        client: the client's number.
        round: the round, from 0.
        samples: positions of the client's samples in the training data, [n].
    """

    seed: int
    client: int
    round: int
    samples: Tensor

    def batch_indices(self, local_steps: int, batch_size: int) -> Tensor:
        """Return the samples of every step, [E, min(B, n)].

        Each pass is a fresh shuffle cut into full batches; what is left of a pass is dropped, and after the last
        batch a new pass begins. A client with fewer than B samples uses all of them in every step.
        """
        draws = stream(self.seed, "client", self.client, "round", self.round, "batches")
        size = min(batch_size, len(self.samples))
        per_pass = len(self.samples) // size
        passes = [
            draws.permutation(len(self.samples))[: per_pass * size].view(per_pass, size)
            for _ in range(-(-local_steps // per_pass))
        ]
        return self.samples[torch.cat(passes)[:local_steps]]

    def augmentation_draws(self) -> Stream:
        """Return the source of the random changes of this visit's images."""
        return stream(self.seed, "client", self.client, "round", self.round, "augmentation")

    def dropout_mask(self, layer: str, site: DropoutSite, local_steps: int, batch_size: int) -> Tensor:
        """Return which values survive in every step, [E, min(B, n), ...], bool."""
        draws = stream(self.seed, "client", self.client, "round", self.round, "dropout", layer)
        size = min(batch_size, len(self.samples))
        return draws.uniform(local_steps, size, *site.shape) >= site.probability


def batch_stream(
    images: Images,
    labels: Tensor,
    visits: Sequence[Visit],
    dropouts: Mapping[str, DropoutSite],
    local_steps: int,
    batch_size: int,
    augmentation: Augmentation | None = None,
) -> Iterator[Batch]:
    """Yield the ``local_steps`` batches of G visits that have batches of equal size.

    Args:
        images: normalised training images [N, C, H, W], or photographs, which a step opens.
        labels: [N].
        visits: the G groups.
        dropouts: dropout layers by name.
        local_steps: E.
        batch_size: B.
        augmentation: how each visit's images are changed; None and ``none`` leave them alone.
    """
    device, shape = images.device, images.shape[1:]
    indices = torch.stack([visit.batch_indices(local_steps, batch_size) for visit in visits], 1).to(device)
    kept = {
        name: torch.stack([visit.dropout_mask(name, site, local_steps, batch_size) for visit in visits], 1).to(device)
        for name, site in dropouts.items()
    }
    plain = augmentation is None or isinstance(augmentation, NoAugmentation)
    draws = [] if plain else [visit.augmentation_draws() for visit in visits]
    for step in range(local_steps):
        masks = {name: kept[name][step].to(images.dtype) / (1 - site.probability) for name, site in dropouts.items()}
        chosen = indices[step]
        if isinstance(images, Photographs):
            sources: Sequence[Stream | None] = draws or [None] * len(visits)
            each = zip(chosen, sources, strict=True)
            with _watched(augmentation, step, []):
                batch = torch.stack([images.opened(own, augmentation, draw) for own, draw in each])
        else:
            # picking rows is several times faster than indexing images
            batch = images.flatten(1).index_select(0, chosen.flatten()).view(*chosen.shape, *shape)
            if augmentation is not None and draws:
                with _watched(augmentation, step, batch):
                    changed = [augmentation.apply(own, draw) for own, draw in zip(batch, draws, strict=True)]
                batch = torch.stack(changed)
        yield Batch(batch, labels[chosen], masks)


def _watched(augmentation: Augmentation | None, step: int, images: Tensor | list[Tensor]) -> watched:
    """Watch an augmentation in the first step: who does it does it there, and later ones are not to pay for it."""
    if step:
        return watched(augmentation, call="apply")
    return watched(augmentation, call="apply", given={"images": images}, draws="the draws that it is given")


# Poisson batches: each sample joins each step's batch by a draw of its own, as the privacy accountant assumes.


def drawn_samples(visit: Visit, local_steps: int, batch_size: int) -> list[Tensor]:
    """Return the positions of every step's samples: each of the client's n with probability min(1, B / n)."""
    draws = stream(visit.seed, "client", visit.client, "round", visit.round, "poisson batches")
    rate = min(1.0, batch_size / len(visit.samples))
    return [visit.samples[draws.uniform(len(visit.samples)) < rate] for _ in range(local_steps)]


def poisson_stream(
    images: Images,
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
    images, drawn = in_memory(images), [drawn_samples(visit, local_steps, batch_size) for visit in visits]
    plain = augmentation is None or isinstance(augmentation, NoAugmentation)
    draws = [] if plain else [visit.augmentation_draws() for visit in visits]
    for step in range(local_steps):
        chosen = [own[step].to(images.device) for own in drawn]
        held = [images[own] for own in chosen]
        if augmentation is not None and draws:
            pairs = list(zip(held, draws, strict=True))
            with _watched(augmentation, step, held):
                held = [augmentation.apply(own, draw) if len(own) else own for own, draw in pairs]
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
