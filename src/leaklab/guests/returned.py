"""What a hook of a guest returned, held against what it must be: the first thing that is wrong, in one line."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from leaklab.records.errors import UserError

MOST_PARAMETERS = 200_000
"""Of a guest's network: who learns its law keeps some hundred gradients in memory."""


def checked(
    file: Path, returned: object, given: Mapping[str, Tensor], hook: str, differentiable: bool = False
) -> dict[str, Tensor]:
    """Return what ``gradient`` or ``update`` gave, where it has the names, shapes and types of what it was given.

    Raises:
        UserError: with the first thing that is wrong and what is wanted.
    """
    wanted = f"{file}: {hook}"
    if not isinstance(returned, Mapping):
        raise UserError(f"{wanted} returned {_called(returned)}: return a mapping from the names to tensors")
    if missing := [name for name in given if name not in returned]:
        raise UserError(f"{wanted} left out '{missing[0]}': return every name; what stays at home goes to hidden()")
    if more := [name for name in returned if name not in given]:
        raise UserError(f"{wanted} returned '{more[0]}', which is no parameter: return the names that were given")
    for name, like in given.items():
        value = returned[name]
        if not isinstance(value, Tensor):
            raise UserError(f"{wanted} returned {_called(value)} for '{name}': return a torch.Tensor")
        if value.is_sparse or value.device != like.device:
            what = "a sparse tensor" if value.is_sparse else f"a tensor on {value.device}"
            raise UserError(f"{wanted} returned {what} for '{name}': return a dense tensor on {like.device}")
        if value.shape != like.shape:
            raise UserError(f"{wanted} returned '{name}' of shape {list(value.shape)}: make it {list(like.shape)}")
        if value.dtype != like.dtype and (like.dtype == torch.float32 or not value.is_floating_point()):
            raise UserError(f"{wanted} returned '{name}' as {value.dtype}: give back {like.dtype}, as it came")
    kept = {name: returned[name] if differentiable else returned[name].detach() for name in given}
    # what is written for float32 is judged in float64 too
    return {name: value.to(given[name].dtype) for name, value in kept.items()}


def checked_samples(file: Path, returned: object, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what ``samples`` gave as a batch: images [B, C, H, W] in [0, 1] and labels [B]; B may be another one.

    Raises:
        UserError: see above.
    """
    wanted, like = f"{file}: samples", given["images"]
    if not isinstance(returned, tuple) or len(returned) != 2 or not all(isinstance(one, Tensor) for one in returned):
        raise UserError(f"{wanted} returned {_called(returned)}: return two tensors, images and labels")
    images, labels = returned
    if images.shape[1:] != like.shape[1:] or not len(images):
        wish = ", ".join(["samples", *map(str, like.shape[1:])])
        raise UserError(f"{wanted} returned images of shape {list(images.shape)}: make it [{wish}]")
    if not images.is_floating_point() or labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise UserError(
            f"{wanted} returned images as {images.dtype} and labels as {labels.dtype} of shape {list(labels.shape)}: "
            f"make them {like.dtype} and torch.int64 [{len(images)}], one whole label for each image"
        )
    if not bool(images.isfinite().all()):
        raise UserError(f"{wanted} returned images that are not finite: correct it")
    if float(images.min()) < 0 or float(images.max()) > 1:
        low, high = float(images.min()), float(images.max())
        raise UserError(f"{wanted} returned images from {low:.3g} to {high:.3g}: keep them in [0, 1]: clamp(0, 1)")
    return {"images": images.detach().to(like.dtype), "labels": labels}


def checked_network(file: Path, returned: object, images: Tensor, classes: int) -> nn.Sequential:
    """Return what ``network`` gave, in evaluation state and in the type of the images [B, C, H, W] that it must take.

    Raises:
        UserError: see above.
    """
    wanted = f"{file}: network"
    if not isinstance(returned, nn.Sequential):
        raise UserError(f"{wanted} returned {_called(returned)}: return an nn.Sequential of named layers")
    if kept := [name for name, _ in returned.named_buffers()]:
        raise UserError(f"{wanted} returned one with the buffer '{kept[0]}': clients here train parameters alone")
    if (count := sum(value.numel() for value in returned.parameters())) > MOST_PARAMETERS:
        raise UserError(f"{wanted} returned one of {count} parameters: make it one of at most {MOST_PARAMETERS}")
    network = returned.to(images.dtype).requires_grad_().eval()
    with torch.no_grad():
        found, again = network(images), network(images)
    if not isinstance(found, Tensor) or found.shape != (len(images), classes):
        shape = list(found.shape) if isinstance(found, Tensor) else _called(found)
        raise UserError(f"{wanted} returned one whose output is {shape}: logits are [{len(images)}, {classes}]")
    if not bool(found.isfinite().all()):
        raise UserError(f"{wanted} returned one whose output is not finite: correct it")
    if not torch.equal(found, again):
        raise UserError(f"{wanted} returned one that draws in evaluation too: draw where self.training holds, alone")
    return network


def checked_penalty(file: Path, returned: object) -> Tensor:
    """Return what ``penalty`` gave: a number that is added to the loss.

    Raises:
        UserError: see above.
    """
    if not isinstance(returned, Tensor) or returned.numel() != 1:
        shown = f"a tensor of shape {list(returned.shape)}" if isinstance(returned, Tensor) else _called(returned)
        raise UserError(f"{file}: penalty returned {shown}: return one number as a tensor, the term of the loss")
    return returned.reshape(())


def _called(value: object) -> str:
    kind = type(value)
    return "None" if value is None else f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
