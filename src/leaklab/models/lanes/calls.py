"""What the compiled library is asked for, in tensors."""

import ctypes
import weakref
from collections.abc import Collection, Mapping, Sequence
from itertools import count

import torch
from torch import Tensor

from leaklab.models.lanes.description import Description, Layer

TYPES = {torch.float32: "float32", torch.float64: "float64"}
Tensors = Mapping[str, Tensor]


class Opened:
    """What a library has opened for batches of some sizes, closed with this object.

    Attributes:
        asked: the number of who was the last to ask an opened thing for gradients, by its place in memory.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Hold nothing yet."""
        self.library = library
        self.asked: dict[int | None, int] = {}
        self._open: dict[tuple[str, bytes, tuple[int, ...]], ctypes.c_void_p] = {}

    def get(self, what: str, layers: Sequence[Layer], *counts: int) -> ctypes.c_void_p:
        """Return ``open_<what>`` of some layers, made when it is first asked for.

        Raises:
            MemoryError: there is no room for it.
        """
        array = (Layer * len(layers))(*layers)
        key = what, bytes(array), counts
        if key not in self._open:
            opened = getattr(self.library, f"open_{what}")
            opened.restype = ctypes.c_void_p
            address = opened(array, len(layers), *counts)
            if not address:
                raise MemoryError(f"no memory for batches of {counts}")
            self._open[key] = ctypes.c_void_p(address)
            weakref.finalize(self, getattr(self.library, f"close_{what}"), self._open[key])
        return self._open[key]


def at(tensor: Tensor, dtype: torch.dtype) -> ctypes.c_void_p:
    """Return the place of a contiguous tensor's first number.

    Raises:
        ValueError: it lies on another device, is not contiguous or of another type: the library would read elsewhere.
    """
    return ctypes.c_void_p(_place(tensor, dtype))


def places(tensors: Sequence[Tensor | None], dtype: torch.dtype) -> ctypes.Array[ctypes.c_void_p]:
    """Return the places of contiguous tensors; 0 for None. Raises as ``at``."""
    return (ctypes.c_void_p * max(1, len(tensors)))(*(None if one is None else _place(one, dtype) for one in tensors))


def _place(tensor: Tensor, dtype: torch.dtype) -> int:
    if not is_ours(tensor) or tensor.dtype != dtype or not tensor.is_contiguous():
        given = f"{tensor.dtype} on {tensor.device}"
        raise ValueError(f"compiled steps take contiguous {dtype} on the processor, not {given}")
    return tensor.data_ptr()


def is_ours(tensor: Tensor) -> bool:
    """Whether the library can read a tensor at all: one that only stands for another has no numbers."""
    plain = type(tensor) in (Tensor, torch.nn.Parameter)
    return plain and tensor.device.type == "cpu" and tensor.dtype in (*TYPES, torch.int64)


def sizes(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_int64]:
    """Return how many numbers each tensor has behind its first axis."""
    return (ctypes.c_int64 * max(1, len(tensors)))(*(one[0].numel() for one in tensors))


def gradients(
    opened: Opened, description: Description, weights: Tensors, images: Tensor, labels: Tensor, masks: Tensors,
    wanted: Collection[str],
) -> tuple[Tensor, dict[str, Tensor]]:  # fmt: skip
    """Return each model's mean cross-entropy [M] and the wanted gradients by name, [M, ...].

    Args:
        opened: of the library.
        description: of the network.
        weights: by name, [M, ...].
        images: [G, B, C, H, W], G a divisor of M.
        labels: [G, B], int64.
        masks: factors at the dropout layers, [G, B, ...], by name.
        wanted: names of the gradients.
    """
    images, labels = images.contiguous(), labels.contiguous()
    held = [weights[name].contiguous() for name in description.names]
    factors = [masks[name].to(images.dtype).contiguous() for name in description.masks if description.drops]
    found = {name: torch.empty_like(held[description.names.index(name)]) for name in wanted}
    models, (groups, size) = len(held[0]), labels.shape
    losses, own, of = images.new_empty(models), TYPES[images.dtype], images.dtype
    _check(description, images, labels)
    getattr(opened.library, f"gradients_{own}")(
        opened.get(own, description.layers, size), models, models // groups, at(images, of), at(labels, torch.int64),
        ctypes.c_int64(size), len(factors), places(factors, of), sizes(factors), len(held), places(held, of),
        sizes(held), places([found.get(name) for name in description.names], of), at(losses, of),
        _lowest(description, wanted),
    )  # fmt: skip
    return losses, found


def _check(description: Description, images: Tensor, labels: Tensor | None = None) -> None:
    """Refuse what the library would read or write beyond: it knows no sizes but those of its layers.

    Raises:
        ValueError: images of another size, or labels that are no classes.
    """
    first, last = description.layers[0], description.layers[-1]
    wanted = (first.channels, first.high, first.wide)
    if tuple(images.shape[2:]) != wanted:
        raise ValueError(f"images of {tuple(images.shape[2:])} before a network for {wanted}")
    if labels is not None and labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < last.outputs:
        raise ValueError(f"labels from {int(labels.min())} to {int(labels.max())} of {last.outputs} classes")


def _lowest(description: Description, names: Collection[str]) -> int:
    """Return the first layer that has a wanted weight: nothing below it is needed."""
    wanted = {description.names.index(name) for name in names}
    return min(index for index, layer in enumerate(description.layers) if wanted & {layer.weight, layer.bias})


def outputs(opened: Opened, description: Description, weights: Tensors, images: Tensor) -> Tensor:
    """Return the outputs [M, classes, B] for images [G, B, C, H, W]."""
    images, own, of = images.contiguous(), TYPES[images.dtype], images.dtype
    _check(description, images)
    held = [weights[name].contiguous() for name in description.names]
    models, (groups, batch) = len(held[0]), images.shape[:2]
    found = images.new_empty(models, description.layers[-1].outputs, batch)
    getattr(opened.library, f"outputs_{own}")(
        opened.get(own, description.layers, batch), models, models // groups, at(images, of), len(held),
        places(held, of), sizes(held), at(found, of),
    )  # fmt: skip
    return found


NUMBERS = count()
"""Of trials, each once in a process."""


class Trials:
    """Gradients of T trials of B samples with common weights, and what functions of them mean for the samples."""

    def __init__(self, opened: Opened, description: Description, weights: Sequence[Tensor], images: Tensor) -> None:
        """Take the weights in the description's order, and images [T, B, C, H, W]."""
        _check(description, images)
        self._opened, self._library, self._own, self._of = opened, opened.library, TYPES[images.dtype], images.dtype
        self._handle = opened.get(f"trials_{self._own}", description.layers, *images.shape[:2])
        self._weights = [value.contiguous() for value in weights]
        self._sizes = (ctypes.c_int64 * len(self._weights))(*(value.numel() for value in self._weights))
        self._number = next(NUMBERS)  # kept in its place: it would hold the weights, and what opened them

    def gradients(self, images: Tensor, targets: Tensor) -> list[Tensor]:
        """Return the gradient of each trial's mean cross-entropy, [T, ...] for each weight.

        Args:
            images: [T, B, C, H, W], contiguous.
            targets: class probabilities [T, B, K], contiguous.
        """
        found = [value.new_empty(len(images), *value.shape) for value in self._weights]
        self._opened.asked[self._handle.value] = self._number
        getattr(self._library, f"trial_gradients_{self._own}")(
            self._handle, at(images, self._of), at(targets, self._of), len(found), places(self._weights, self._of),
            self._sizes, places(found, self._of),
        )  # fmt: skip
        return found

    def derivatives(self, images: Tensor, targets: Tensor, outer: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return a function's derivatives by images and targets from those by the gradients, ``outer``.

        The library goes on from what ``gradients`` left; if it was asked for another one's since, it does them again.
        """
        if self._opened.asked.get(self._handle.value) != self._number:
            self.gradients(images, targets)
        by_images, by_targets = torch.empty_like(images), torch.empty_like(targets)
        given = [value.contiguous() for value in outer]
        getattr(self._library, f"trial_derivatives_{self._own}")(
            self._handle, at(targets, self._of), places(self._weights, self._of), self._sizes,
            places(given, self._of), at(by_images, self._of), at(by_targets, self._of),
        )  # fmt: skip
        return by_images, by_targets
