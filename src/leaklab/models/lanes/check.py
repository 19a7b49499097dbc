"""Whether a library that was just built computes what autograd does, and sooner: asked once, before it is kept."""

import ctypes
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from leaklab.models.lanes.calls import Opened, Trials, gradients
from leaklab.models.lanes.description import Description
from leaklab.records.streams import stream

AGREEMENT = 1e-10
"""Largest difference in float64, where no value is much above 1."""
SHAPE = (2, 10, 9)


def agrees(library: ctypes.CDLL) -> bool:
    """Tell whether loss, gradients and their derivatives are those of autograd on a network that has all layers."""
    return max(differences(library)) < AGREEMENT


def differences(library: ctypes.CDLL) -> Iterator[float]:
    """Yield how far each number is at most from that of autograd."""
    draws = stream(0, "a network with all layers")
    network = nn.Sequential(
        nn.Conv2d(2, 7, 3, padding=1), nn.MaxPool2d(2), nn.LeakyReLU(), nn.Conv2d(7, 5, (2, 3), stride=2), nn.Sigmoid(),
        nn.Flatten(), nn.Linear(10, 19), nn.ReLU(), nn.Linear(19, 3),
    ).double()  # fmt: skip
    weights = {name: draws.normal(*value.shape) / 2 for name, value in network.state_dict().items()}
    images, labels = draws.normal(11, *SHAPE), draws.integers(0, 3, 11)
    opened, description = Opened(library), Description.of(network, SHAPE, dropping=False)
    stacked = {name: value[None] for name, value in weights.items()}
    loss, found = gradients(opened, description, stacked, images[None], labels[None], {}, list(weights))
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    expected = F.cross_entropy(functional_call(network, leaves, (images,)), labels)
    yield abs(float(loss[0]) - float(expected.detach()))
    for name, value in zip(leaves, torch.autograd.grad(expected, list(leaves.values())), strict=True):
        yield _apart(found[name][0], value)
    yield from _of_trials(opened, description, network, weights, images, draws.normal(11, 3).softmax(1))


def _of_trials(
    opened: Opened, description: Description, network: nn.Module, weights: dict[str, Tensor], images: Tensor,
    targets: Tensor,
) -> Iterator[float]:  # fmt: skip
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    inputs, wanted = images.clone().requires_grad_(), targets.clone().requires_grad_()
    loss = -(wanted * functional_call(network, leaves, (inputs,)).log_softmax(1)).sum() / len(images)
    own = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
    outer = [value.detach().cos() for value in own]
    expected = torch.autograd.grad(list(own), (inputs, wanted), outer)
    trials = Trials(opened, description, list(weights.values()), images[None])
    found = trials.gradients(images[None], targets[None])
    for one, value in zip(found, own, strict=True):
        yield _apart(one[0], value.detach())
    both = trials.derivatives(images[None], targets[None], [value[None] for value in outer])
    for one, value in zip(both, expected, strict=True):
        yield _apart(one[0], value)


TIMES = 7
GRAY = (1, 28, 28)


def is_faster(library: ctypes.CDLL) -> bool:
    """Tell whether a training step of a small network takes less processor time than autograd's, at the best of some.

    A processor whose registers are fewer than ``arithmetic.hpp`` takes them for is slower by several times.
    """
    draws = stream(0, "a network for a race")
    network = nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 8 * 8, 10),
    )  # fmt: skip
    weights = {name: draws.normal(*value.shape).float() / 10 for name, value in network.state_dict().items()}
    images, labels = draws.normal(32, *GRAY).float(), draws.integers(0, 10, 32)
    opened, description = Opened(library), Description.of(network, GRAY, dropping=False)
    stacked = {name: value[None] for name, value in weights.items()}
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}

    def compiled() -> None:
        gradients(opened, description, stacked, images[None], labels[None], {}, list(weights))

    def plain() -> None:
        loss = F.cross_entropy(functional_call(network, leaves, (images,)), labels)
        torch.autograd.grad(loss, list(leaves.values()))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in jobs; processor time counts each thread, also one that waits
    try:
        return _seconds(compiled) < _seconds(plain)
    finally:
        torch.set_num_threads(threads)


def _seconds(work: Callable[[], None]) -> float:
    times = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())
