"""Gradients and updates of trials one after another, each by the usual double backward through one network.

``gradients`` and ``steps`` map a network over trials (``torch.func``), at a price of some milliseconds a call for the
mapping itself. Many trials share it; one alone pays it in each evaluation. What is taken one by one here costs nothing
besides, and a trial's numbers do not depend on how many others there are, to the last digit.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leaklab.attacks.matching.gradients import (
    TrialGradients,
    general_gradients,
    soft_cross_entropy,
    trial_gradients,
)
from leaklab.attacks.matching.steps import LocalSteps, is_gradient


def one_by_one(network: nn.Sequential, client: tuple[Sequence[float], LocalSteps] | None = None) -> TrialGradients:
    """Return the fastest exact way to a few trials' gradients, or to their updates in units of one.

    Args:
        network: see ``trial_gradients``; under several steps in evaluation state.
        client: the rates that the server prescribed and how the client steps; None where one gradient stands for all.
    """
    if client is not None and not is_gradient(*client):
        return partial(updates_one_by_one, rates=client[0], steps=client[1])
    side_by_side = trial_gradients(network)
    return gradients_one_by_one if side_by_side is general_gradients else side_by_side


def gradients_one_by_one(network: nn.Sequential, inputs: Tensor, targets: Tensor) -> list[Tensor]:
    """Return the gradient of each trial's mean cross-entropy, once differentiable for inputs and targets.

    Args:
        network: any; no parameter asks for a gradient.
        inputs: [T, B, C, H, W].
        targets: class probabilities [T, B, K].

    Returns:
        One tensor [T, *parameter] per parameter, in the network's order.
    """
    before = [value.detach().requires_grad_() for value in network.parameters()]
    every = [_gradients(network, before, *trial) for trial in zip(inputs, targets, strict=True)]
    return [torch.stack(of_all) for of_all in zip(*every, strict=True)]


def updates_one_by_one(
    network: nn.Sequential, images: Tensor, targets: Tensor, rates: Sequence[float], steps: LocalSteps
) -> list[Tensor]:
    """Return what ``steps.simulated_delta`` does in units of a gradient: over minus the sum of the rates.

    Args:
        network: the broadcast weights, in evaluation state; no parameter asks for a gradient.
        images: the clients' samples, [T, n, C, H, W].
        targets: class probabilities [T, n, K].
        rates: [E], those of all clients.
        steps: optimizer and batch order.

    Returns:
        One tensor [T, *parameter] per parameter, in the network's order.
    """
    every = [_delta(network, *trial, rates, steps) for trial in zip(images, targets, strict=True)]
    return [torch.stack(of_all) / -sum(rates) for of_all in zip(*every, strict=True)]


def _delta(
    network: nn.Sequential, images: Tensor, targets: Tensor, rates: Sequence[float], steps: LocalSteps
) -> list[Tensor]:
    before = [value.detach() for value in network.parameters()]
    current = [value.clone().requires_grad_() for value in before]
    velocity = [torch.zeros_like(value) for value in before]
    for step, rate in enumerate(rates):
        chosen = slice(None) if steps.order is None else steps.order[step]
        gradients = _gradients(network, current, images[chosen], targets[chosen])
        moved = [g + steps.weight_decay * w for g, w in zip(gradients, current, strict=True)]
        velocity = [steps.momentum * v + m for v, m in zip(velocity, moved, strict=True)]
        current = [w - rate * v for w, v in zip(current, velocity, strict=True)]
    return [after - first for after, first in zip(current, before, strict=True)]


def _gradients(network: nn.Sequential, weights: list[Tensor], images: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    """Return the gradient of the mean cross-entropy of [B, C, H, W] at weights that ask for one."""
    names = [name for name, _ in network.named_parameters()]
    logits = functional_call(network, dict(zip(names, weights, strict=True)), (images,))
    loss = soft_cross_entropy(logits, targets).mean()
    return torch.autograd.grad(loss, weights, create_graph=True)
