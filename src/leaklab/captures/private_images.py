"""Clients with private images: drawn by a declared seed among those that show something, named, or planted."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.captures.start import Start, round_factor
from leaklab.data.dataset import unit_range
from leaklab.defenses.base import ClientContext
from leaklab.federated.batches import Batch
from leaklab.models.generators.base import Generator
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec, ImageChoice

# Private images that a generator made: the control in which the image that an attack looks for can be found.


@dataclass(frozen=True, eq=False)
class PlantedImages:
    """The latents [N, d] that were drawn from N(0, 1), their images [N, C, H, W] in [0, 1] and classes [N]."""

    latents: Tensor
    images: Tensor
    labels: Tensor


def planted_images(choice: ImageChoice, generator: Generator, dtype: torch.dtype) -> PlantedImages:
    """Return the images of a choice with ``planted``, one class after another.

    The pixels are not rounded, so that the drawn latents render them exactly.

    Args:
        choice: how many, from which seed.
        generator: frozen, on the CPU.
        dtype: of the latents and images.
    """
    latents = torch.stack(
        [
            stream(choice.seed, "planted image", number).normal(generator.latent_size).to(dtype)
            for number in range(choice.count)
        ]
    )
    labels = torch.arange(choice.count) % generator.num_classes
    classes = F.one_hot(labels, generator.num_classes).to(dtype)
    with torch.no_grad():
        images = deepcopy(generator).to(dtype).generate(latents, classes)
    return PlantedImages(latents, images, labels)


@dataclass(frozen=True, eq=False)
class PrivateImages:
    """The images of G groups of clients.

    Attributes:
        batches: of each local step, [G, B, ...].
        contexts: one a client; the draws of a group side by side.
        unit: all images of the round on the [0, 1] scale, step after step, [G, S, C, H, W].
        labels: [G, S].
        positions: their places in the split, of planted ones their numbers, [G, S].
        clients: numbers of the clients of a deal, one a group; empty for drawn images.
    """

    batches: Sequence[Batch]
    contexts: Sequence[ClientContext]
    unit: Tensor
    labels: Tensor
    positions: Tensor
    clients: tuple[int, ...] = ()


def drawn_images(
    spec: CaptureSpec, choice: ImageChoice, start: Start, generator: Generator | None = None
) -> PrivateImages:
    """Return groups of ``batch_size`` images; a client repeats its one batch in every local step.

    Args:
        spec: of the capture.
        choice: which images.
        start: the beginning of the round.
        generator: of planted images; it makes those of the data set's shape and classes.

    Raises:
        UserError: too few images, a batch size that does not divide their number, or a generator of other images.
    """
    dtype = getattr(torch, spec.dtype)
    if generator is not None:
        generator.require(start.dataset.shape, start.dataset.num_classes)
        planted = planted_images(choice, generator, dtype)
        positions = groups(torch.arange(choice.count), spec.batch_size)
        unit, labels = planted.images[positions], planted.labels[positions]
        inputs: Tensor = spec.on_input_range(unit)
    else:
        images, classes = start.dataset.part(choice.split)
        positions = groups(choose_images(choice, images, classes), spec.batch_size)
        unit, labels = unit_range(images[positions], dtype), classes[positions]
        inputs = start.inputs(images[positions], spec)
    batch = Batch(inputs, labels, {})
    rate = spec.rate * round_factor(spec)
    contexts = [
        ClientContext(
            scaled_rate=spec.client_weight * rate,
            seed=start.seed,
            client=int(group[0]),
            round=start.round,
            draw=draw,
            num_classes=len(set(held.tolist())),
        )
        for group, held in zip(positions, batch.labels, strict=True)
        for draw in range(spec.draws)
    ]
    return PrivateImages([batch] * spec.local_steps, contexts, unit, batch.labels, positions)


def choose_images(choice: ImageChoice, images: Tensor, labels: Tensor) -> Tensor:
    """Return the positions [count] of the first images of a random order that have enough contrast, or the named ones.

    Args:
        choice: how many, from which seed, or which.
        images: uint8 [N, C, H, W], the part that is drawn from.
        labels: theirs, [N]; read where the choice says how many have one.

    Raises:
        UserError: fewer images qualify, or there is no such position.
    """
    if choice.indexes:
        if max(choice.indexes) >= len(images):
            raise UserError(
                f"images.indexes: the {choice.split} part has the positions 0 to {len(images) - 1}, not "
                f"{max(choice.indexes)}: name others"
            )
        return torch.tensor(choice.indexes)
    chosen: list[int] = []
    room = {True: choice.of_label, False: choice.count - choice.of_label}
    for index in stream(choice.seed, "private images", choice.split).permutation(len(images)).tolist():
        if len(chosen) == choice.count:
            break
        own = choice.label is not None and int(labels[index]) == choice.label
        if (choice.label is None or room[own]) and _contrast(images[index]) >= choice.min_contrast:
            room[own] -= 1
            chosen.append(index)
    if len(chosen) < choice.count:
        raise UserError(
            f"only {len(chosen)} {choice.split} images have a contrast of {choice.min_contrast} and the labels asked "
            f"for: ask for fewer than {choice.count} or lower min_contrast"
        )
    return torch.tensor(chosen)


def groups(chosen: Tensor, batch_size: int) -> Tensor:
    """Return the positions by client, [G, B].

    Raises:
        UserError: the batch size does not divide their number.
    """
    if len(chosen) % batch_size:
        raise UserError(f"{len(chosen)} images do not fill batches of {batch_size}: choose a multiple")
    return chosen.view(-1, batch_size)


def _contrast(image: Tensor) -> float:
    """Return the standard deviation of the pixels of [C, H, W] within a channel, averaged over channels.

    Over all channels together a flat red square would count as rich in contrast.
    """
    return float(unit_range(image, torch.float64).flatten(1).std(1, correction=0).mean())
