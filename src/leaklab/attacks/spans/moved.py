"""Updates that are differences of weights, after one local step or several: how they are rounded, what moved meanwhile.

A client sends its weights, not gradients. Their difference is rounded as the weights are, however small it is; and
after several steps it is the sum of gradients that were taken at weights of which the server knows first and last.
"""

from collections.abc import Mapping
from copy import deepcopy
from math import sqrt

import torch
from torch import Tensor, nn

from leaklab.attacks.spans.span import ROUNDING


def midway(network: nn.Module, update: Mapping[str, Tensor], change: float, steps: int) -> nn.Module:
    """Return a network with the weights at which its client's gradients were taken, to first order in its steps.

    Those are the mean of the weights before each step. Where B of LoRA began at zero, later steps weigh more: A has no
    gradient before B has moved, and then one that grows with it.

    Args:
        network: with the broadcast weights; stays as it is.
        update: gradients by name.
        change: by what the update has to be multiplied to be a difference of weights; 0 if it never was one.
        steps: E, of plain descent.
    """
    if steps == 1 or not change:
        return network
    thin = [value for name, value in network.named_parameters() if ".B_" in name and name in update]
    begins = bool(thin) and not any(bool(value.any()) for value in thin)
    along = (2 * steps - 1) / (3 * steps) if begins else (steps - 1) / (2 * steps)
    moved = deepcopy(network)
    with torch.no_grad():
        for name, value in moved.named_parameters():
            if name in update:
                value.sub_(along * change * update[name].to(value))
    return moved


def rounding_of(network: nn.Module, update: Mapping[str, Tensor], change: float) -> float:
    """Return how far an update may be from the true one because the weights are rounded, over its length; 0 of none.

    Args:
        network: see ``midway``.
        update: see ``midway``.
        change: see ``midway``.
    """
    if not change:
        return 0.0
    weights = [value.double().square().sum() for name, value in network.named_parameters() if name in update]
    lengths = [value.double().square().sum() for value in update.values()]
    rounding = ROUNDING[next(iter(update.values())).dtype]
    return rounding * sqrt(float(sum(weights))) / (change * sqrt(float(sum(lengths))))
