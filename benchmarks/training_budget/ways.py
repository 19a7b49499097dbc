"""Other ways to the gradient of a network, which is most of what a step takes: the form in use beside others."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from statistics import median

import torch
from torch import Tensor, nn

from leaklab.calibrate import CLASSES
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import TrainableNetwork, trainable
from leaklab.federated.forms.one_by_one import OneByOne
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.models.base import Shape
from leaklab.records import plugins
from leaklab.records.record import Component
from leaklab.records.streams import stream

TOGETHER, REPEATS = 6, 9
IN_USE = "in use: written out, one client after the other"
Way = Callable[[], Tensor]


def times_of(model: Component, shape: Shape, batch_size: int) -> dict[str, tuple[float, float]]:
    """Return way -> processor milliseconds of one client's gradient, and its largest relative error.

    Ways take turns, so that what the machine does besides falls on all of them alike.
    """
    ways = dict(_ways(model, shape, batch_size))
    exact = ways[IN_USE]()
    found: dict[str, list[float]] = {name: [] for name in ways}
    errors: dict[str, float] = {}
    for _ in range(1 + REPEATS):
        for name, way in ways.items():
            started = time.process_time()
            gradient = way()
            found[name].append((time.process_time() - started) * 1e3 / TOGETHER)
            errors[name] = float((gradient - exact).norm() / exact.norm())
    return {name: (median(own[1:]), errors[name]) for name, own in found.items()}  # the first turn warms up


def _ways(model: Component, shape: Shape, batch_size: int) -> Iterator[tuple[str, Way]]:
    def network() -> nn.Sequential:
        return plugins.load("models", model.name, model.settings).initialised(shape, CLASSES, 0)  # type: ignore[no-any-return]

    weights = {
        name: value.detach().expand(TOGETHER, *value.shape).clone() for name, value in network().named_parameters()
    }
    draws = stream(0, "training-budget")
    images = draws.normal(TOGETHER, batch_size, *shape).float()
    batch = Batch(images, draws.integers(0, CLASSES, TOGETHER, batch_size), {})

    def of(form: TrainableNetwork, around: Callable[[], object] = nullcontext) -> Way:
        def way() -> Tensor:
            with around():  # type: ignore[attr-defined]
                return _flat(form.gradients(weights, batch)[1])

        return way

    written_out = trainable(network(), shape)
    yield IN_USE, of(written_out)
    yield "the same in the processor's own convolutions, without oneDNN", of(written_out, _without_onednn)
    yield "all clients as groups of one convolution", of(StackedNetwork(network(), shape))
    differentiated = OneByOne(network(), True)
    yield "automatic differentiation, one client after the other", of(differentiated)
    yield "the same in bfloat16 (not exact)", of(differentiated, _bfloat16)


@contextmanager
def _without_onednn() -> Iterator[None]:
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@contextmanager
def _bfloat16() -> Iterator[None]:
    with torch.autocast("cpu", torch.bfloat16):
        yield


def _flat(gradients: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([gradients[name].float().flatten() for name in sorted(gradients)])
