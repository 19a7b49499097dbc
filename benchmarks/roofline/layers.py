"""One step of a convolutional network, layer by layer: operations, bytes, seconds, and the same as one product."""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.federated.batches import Batch
from leaklab.federated.forms.lanes import LanesNetwork
from leaklab.federated.forms.network import trainable
from leaklab.models.lanes.description import AFFINE, CONVOLUTION, Layer, fits_lanes
from leaklab.models.lanes.library import library
from leaklab.records import plugins
from leaklab.records.streams import stream

CLASSES, REPEATS, FLOAT = 10, 40, 4
KINDS = ("convolution", "affine", "pooling", "rectifier", "dropout")


@dataclass(frozen=True)
class Case:
    """A network and its batch."""

    title: str
    model: str
    settings: tuple[tuple[str, int], ...]
    shape: tuple[int, int, int]
    batch: int


CASES = (
    Case("CNN 10/20/50, 28x28, batch 32", "cnn-small", (), (1, 28, 28), 32),
    Case("CNN 32/64/512, 28x28, batch 32", "cnn-mnist", (), (1, 28, 28), 32),
    Case("CNN 16/32/128, 28x28, batch 32", "cnn-leaky", (), (1, 28, 28), 32),
    Case("CNN 16/32/64/128, 32x32, batch 32", "cnn-leaky", (("convolutions", 3),), (3, 32, 32), 32),
)


@dataclass(frozen=True)
class Part:
    """One layer in one direction.

    Attributes:
        case: title of the network.
        layer: its kind and number.
        direction: ``forward`` or ``backward``; the latter has the gradients and the slopes at the inputs.
        flop: multiplications and additions that are asked for.
        bytes: of values, weights, slopes and gradients, each read or written once.
        seconds: shortest time of some.
        product: seconds of matrix products of the same shapes; None where a layer is none.
    """

    case: str
    layer: str
    direction: str
    flop: int
    bytes: int
    seconds: float
    product: float | None


def parts_of(case: Case) -> list[Part]:
    """Measure the layers of a network."""
    network, weights, batch = material(case)
    layers = network.layers(bool(batch.masks))
    seconds = (ctypes.c_double * (2 * len(layers)))()
    opened, timed = network.opened("float32", case.batch, bool(batch.masks)), library().time_float32
    shortest = [float("inf")] * len(seconds)
    try:
        for _ in range(REPEATS):
            ctypes.memset(seconds, 0, ctypes.sizeof(seconds))
            timed(opened, seconds)
            network.gradients(weights, batch)
            shortest = [min(pair) for pair in zip(shortest, seconds, strict=True)]
    finally:
        timed(opened, None)
    found = []
    for index, layer in enumerate(layers):
        name = f"{KINDS[layer.kind]} {index + 1}"
        for place, direction in enumerate(("forward", "backward")):
            flop, moved = costs(layer, case.batch, place, index == 0)
            product = product_of(layer, case.batch, place, index == 0)
            found.append(Part(case.title, name, direction, flop, moved, shortest[place * len(layers) + index], product))
    return found


def material(case: Case) -> tuple[LanesNetwork, dict[str, Tensor], Batch]:
    """Return a case's compiled network, its weights [1, ...], and a batch of noise with its masks."""
    model, draws = plugins.load("models", case.model, dict(case.settings)), stream(0, "roofline")
    built = model.build(case.shape, CLASSES)
    compiled = library()
    if compiled is None or not fits_lanes(built):
        raise SystemExit("there are no compiled steps on this machine: install a C++ compiler")
    network = LanesNetwork(built, case.shape, compiled)
    state = model.initialised(case.shape, CLASSES, 1024).state_dict()
    masks = {
        name: (draws.uniform(1, case.batch, *site.shape) >= site.probability).float() / (1 - site.probability)
        for name, site in network.dropouts.items()
    }
    images = draws.normal(1, case.batch, *case.shape).float()
    labels = draws.integers(0, CLASSES, 1, case.batch)
    return network, {name: value[None] for name, value in state.items()}, Batch(images, labels, masks)


def whole_step(case: Case) -> tuple[float, float]:
    """Return the processor seconds of one gradient, compiled and by torch."""
    network, weights, batch = material(case)
    built = plugins.load("models", case.model, dict(case.settings)).build(case.shape, CLASSES)
    other = trainable(built, case.shape).other  # what a machine without a compiler does
    both = [lambda: network.gradients(weights, batch), lambda: other.gradients(weights, batch)]
    ours, theirs = in_turn(both)
    return ours, theirs


def in_turn(calls: list[Callable[[], object]]) -> list[float]:
    """Return the shortest processor seconds of each of some calls, which take turns."""
    shortest = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for place, call in enumerate(calls):
            began = time.process_time()
            call()
            shortest[place] = min(shortest[place], time.process_time() - began)
    return shortest


def costs(layer: Layer, batch: int, backward: int, first: bool) -> tuple[int, int]:
    """Return the operations and the bytes of a layer; nothing asks for slopes at the images."""
    inputs, outputs, places = sizes(layer)
    weights = outputs * taps(layer) if layer.kind in (CONVOLUTION, AFFINE) else 0
    values = batch * (inputs + outputs * places)
    if not weights:
        return 0, FLOAT * (values + backward * batch * inputs)
    products = (2 - first) if backward else 1
    moved = values + weights if not backward else values + 2 * weights + (0 if first else batch * inputs)
    return 2 * batch * places * weights * products, FLOAT * moved


def sizes(layer: Layer) -> tuple[int, int, int]:
    """Return a layer's inputs, output channels, and places of an output channel."""
    inputs = layer.channels * layer.high * layer.wide
    if layer.kind == AFFINE:
        return inputs, layer.outputs, 1
    if layer.kind == CONVOLUTION:
        high = layer.high + 2 * layer.padding - layer.kernel_high + 1
        return inputs, layer.outputs, high * (layer.wide + 2 * layer.padding - layer.kernel_wide + 1)
    window = layer.kernel_high * layer.kernel_wide
    return inputs, layer.channels, layer.high * layer.wide // window


def taps(layer: Layer) -> int:
    """Return how many weights each output has."""
    return layer.channels * (layer.high * layer.wide if layer.kind == AFFINE else layer.kernel_high * layer.kernel_wide)


def product_of(layer: Layer, batch: int, backward: int, first: bool) -> float | None:
    """Return the seconds of the matrix products that a layer amounts to, its patches being there already."""
    if layer.kind not in (CONVOLUTION, AFFINE):
        return None
    _, outputs, places = sizes(layer)
    kernels, patches = torch.ones(outputs, taps(layer)), torch.ones(taps(layer), batch * places)
    slopes = torch.ones(outputs, batch * places)
    wanted: list[Callable[[], object]] = [lambda: kernels @ patches]
    if backward:
        wanted = [lambda: slopes @ patches.T, *([] if first else [lambda: kernels.T @ slopes])]
    return sum(in_turn(wanted))
