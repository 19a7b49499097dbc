"""Which private images a client holds: drawn by a declared seed among those that show something."""

import torch
from torch import Tensor

from leaklab.data.dataset import unit_range
from leaklab.records.capture_spec import ImageChoice
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def choose_images(choice: ImageChoice, images: Tensor) -> Tensor:
    """Return the positions [count] of the first images of a random order that have enough contrast.

    Args:
        choice: how many, from which seed.
        images: uint8 [N, C, H, W], the part that is drawn from.

    Raises:
        UserError: fewer images qualify.
    """
    chosen: list[int] = []
    for index in stream(choice.seed, "private images", choice.split).permutation(len(images)).tolist():
        if len(chosen) == choice.count:
            break
        if _contrast(images[index]) >= choice.min_contrast:
            chosen.append(index)
    if len(chosen) < choice.count:
        raise UserError(
            f"only {len(chosen)} {choice.split} images have a contrast of {choice.min_contrast}: "
            f"ask for fewer than {choice.count} or lower min_contrast"
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
