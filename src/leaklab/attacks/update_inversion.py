"""The objective of update matching: dummy samples train as the client did, and the updates are compared.

Both updates are taken in units of a gradient, divided by minus the sum of the prescribed rates, so that the loss is of
the size of a gradient matching loss (conditioning only); with one step it is the gradient matching loss.

Source: OUTPOST paper, section III (delta matching); "Inverting Gradients - How easy is it to break privacy in federated
learning?", section 6.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.attacks.inversion import Inversion
from leaklab.attacks.matching import Distance
from leaklab.attacks.simulation import LocalSteps, simulated_delta
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError


class UpdateInversion(Inversion):
    """Matching loss of S trials whose clients did several local steps, as a function of their unknowns [S, n].

    Args:
        network: the broadcast weights, in evaluation state (or ``models/batch_statistics.py``); no parameter asks for a
            gradient.
        observed: updates in units of a gradient, one [T, ...] per parameter in the network's order.
        shape: (n, C, H, W) of all samples of a client's round.
        num_classes: K.
        distance: see ``matching``.
        labels: [T, n] fixed labels, or None to search soft labels jointly.
        rates: [E], prescribed for each local step.
        steps: the client's optimizer and batch order.
    """

    def __init__(
        self,
        network: nn.Sequential,
        observed: list[Tensor],
        shape: tuple[int, ...],
        num_classes: int,
        distance: Distance,
        labels: Tensor | None,
        rates: Tensor,
        steps: LocalSteps,
    ) -> None:
        super().__init__(network, observed, shape, num_classes, distance, labels)
        unit = -float(rates.sum())

        def updates(network: nn.Sequential, images: Tensor, targets: Tensor) -> list[Tensor]:
            delta = simulated_delta(network, images, targets, rates.to(images).expand(len(images), -1), steps)
            return [value / unit for value in delta.values()]

        self._gradients = updates


def batch_order(samples: int, batch_size: int, local_steps: int) -> Tensor | None:
    """Return the samples that each step uses, [E, B]; None for one batch that every step repeats.

    Args:
        samples: n, those of the client's round.
        batch_size: B.
        local_steps: E.

    Raises:
        UserError: they neither fill one batch nor one for each step.
    """
    if samples == batch_size:
        return None
    if samples != batch_size * local_steps:
        raise UserError(
            f"{samples} samples in {local_steps} steps of {batch_size} are neither one batch nor one for each step: "
            f"set samples to {batch_size} or {batch_size * local_steps}"
        )
    return torch.arange(samples).view(local_steps, batch_size)


def steps_of(knowledge: Knowledge, order: Tensor | None, needed_by: str) -> LocalSteps:
    """Return how the client steps, from the facts; without a state it is plain gradient descent.

    Raises:
        UserError: an optimizer that is not simulated.
    """
    optimizer: dict[str, Any] = knowledge.facts.get("optimizer", {"name": "sgd", "settings": {}})
    if optimizer["name"] != "sgd":
        raise UserError(f"attack '{needed_by}' simulates clients with sgd, not with {optimizer['name']}")
    momentum = float(optimizer["settings"].get("momentum", 0.0))
    return LocalSteps(momentum, float(knowledge.facts.get("weight_decay", 0.0)), order)


def is_gradient(rates: Sequence[float], steps: LocalSteps) -> bool:
    """Tell whether the update in units of a gradient is that of all samples: one plain step on one batch."""
    return len(rates) == 1 and steps.order is None and steps.weight_decay == 0
