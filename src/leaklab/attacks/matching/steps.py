"""Local training simulated on dummy data: the update that a client with these samples would have sent.

After the first step the weights of every trial go their own way, so ``torch.func`` maps the network over trials:
as fast as batched products written out by hand for the networks of this project, and exact for any of them.

Source: the local steps of "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1,
with one rate per step (LRP paper, eq. 10); unrolled by the attacker who matches updates (OUTPOST paper, section III).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from leaklab.attacks.matching.distances import by_trial
from leaklab.attacks.matching.gradients import soft_cross_entropy
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class LocalSteps:
    """How the client steps: v <- momentum v + (g + decay W), W <- W - rate v, with v = 0 before the first step.

    Attributes:
        momentum: in [0, 1).
        weight_decay: not negative.
        order: the samples that each step uses, [E, B] positions; None for all samples in every step.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    order: Tensor | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.momentum < 1 and self.weight_decay >= 0):
            raise UserError("simulated steps need a momentum of at least 0 and below 1, and no negative weight decay")

    def heard(self, gradient: Tensor, velocity: Tensor, weight: Tensor) -> Tensor:
        """Return momentum v + g + decay W, [T, ...]; what has a factor of 0 is left out, for it is differentiated too.

        Args:
            gradient: g, [T, ...].
            velocity: v before the step, [T, ...].
            weight: W before the step, [T, ...].
        """
        kept = self.momentum * velocity + gradient if self.momentum else gradient
        return kept + self.weight_decay * weight if self.weight_decay else kept


PLAIN_STEPS = LocalSteps()


def simulated_delta(
    network: nn.Sequential, images: Tensor, targets: Tensor, rates: Tensor, steps: LocalSteps = PLAIN_STEPS
) -> dict[str, Tensor]:
    """Return the weights after minus before E local steps of T clients, differentiable for images, targets and rates.

    Args:
        network: the broadcast weights; in evaluation state.
        images: the clients' samples, [T, n, C, H, W].
        targets: class probabilities [T, n, K].
        rates: [T, E].
        steps: optimizer and batch order.

    Returns:
        One tensor [T, *parameter] per parameter, by name, in the network's order.

    Raises:
        UserError: a network in training state, or tensors that do not belong together.
    """
    delta: dict[str, Tensor] = {}
    for stepped in stepping(network, images, targets, rates, steps):
        delta = stepped.delta
    return delta


@dataclass(frozen=True)
class Stepped:
    """One simulated local step.

    Attributes:
        gradients: at the weights before it, by name, [T, *parameter].
        delta: weights after it minus broadcast ones, by name, [T, *parameter].
    """

    gradients: dict[str, Tensor]
    delta: dict[str, Tensor]


Moves = Callable[[dict[str, Tensor]], Mapping[str, Tensor]]
"""What a client steps by that has these gradients, [T, *parameter] by name."""


def stepping(
    network: nn.Sequential,
    images: Tensor,
    targets: Tensor,
    rates: Tensor,
    steps: LocalSteps = PLAIN_STEPS,
    moves: Moves = dict,
) -> Iterator[Stepped]:
    """Yield the local steps of T clients; see ``simulated_delta``.

    Args:
        network: see there, as the next four.
        images: likewise.
        targets: likewise.
        rates: likewise.
        steps: likewise.
        moves: what the client's defense makes of its gradients, as far as it is known; the gradients themselves.

    Raises:
        UserError: see ``simulated_delta``.
    """
    _check(images, targets, rates, steps.order)
    before = {name: value.detach() for name, value in network.named_parameters()}
    delta = {name: value.new_zeros(len(images), *value.shape) for name, value in before.items()}
    velocity = dict(delta)
    for step, rate in enumerate(rates.unbind(1)):
        chosen = slice(None) if steps.order is None else steps.order[step]
        current = {name: before[name] + moved for name, moved in delta.items()}
        gradients = gradients_at(network, current, images[:, chosen], targets[:, chosen])
        delta = dict(delta)
        for name, moved in moves(gradients).items():
            velocity[name] = steps.heard(moved, velocity[name], current[name])
            delta[name] = delta[name] - by_trial(rate, velocity[name]) * velocity[name]
        yield Stepped(gradients, delta)


def gradients_at(network: nn.Sequential, weights: Weights, images: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Return the gradient of each trial's mean cross-entropy at the trial's own weights.

    Args:
        network: gives the layers and running statistics; its own weights are not used. In evaluation state.
        weights: by name, [T, *parameter].
        images: [T, B, C, H, W].
        targets: class probabilities [T, B, K].

    Returns:
        By name, [T, *parameter], differentiable for weights, images and targets.

    Raises:
        UserError: a network in training state.
    """
    if network.training:
        raise UserError("local steps are simulated in evaluation state only: capture the client in mode eval")

    def loss(current: dict[str, Tensor], batch: Tensor, target: Tensor) -> Tensor:
        return soft_cross_entropy(functional_call(network, current, (batch,)), target).mean()

    return dict(vmap(grad(loss))(dict(weights), images, targets))


def _check(images: Tensor, targets: Tensor, rates: Tensor, order: Tensor | None) -> None:
    trials, samples = images.shape[:2]
    if targets.dim() != 3 or targets.shape[:2] != images.shape[:2]:
        raise UserError(f"{trials} trials of {samples} samples need class probabilities [{trials}, {samples}, classes]")
    if rates.dim() != 2 or len(rates) != trials or rates.shape[1] == 0:
        raise UserError(f"{trials} trials need rates [{trials}, steps] of at least one step, not {list(rates.shape)}")
    if order is None:
        return
    if order.dim() != 2 or len(order) != rates.shape[1]:
        raise UserError(f"a batch order for {rates.shape[1]} steps is [steps, batch], not {list(order.shape)}")
    if order.numel() == 0 or int(torch.min(order)) < 0 or int(torch.max(order)) >= samples:
        raise UserError(f"a batch order names samples 0 to {samples - 1}, at least one per step")


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


# The gradient in an update of several steps, momentum and weight decay undone.


def coefficients(rates: Sequence[float], momentum: float, weight_decay: float) -> tuple[float, list[float]]:
    """Return a and the k_t of W_E = a W_0 - sum_t k_t g_t.

    Args:
        rates: of each of the E steps.
        momentum: mu, 0 for none.
        weight_decay: lambda.
    """
    kept, moved = 1.0, [0.0] * len(rates)
    buffer, heard = 0.0, [0.0] * len(rates)
    for step, rate in enumerate(rates):
        buffer = momentum * buffer + weight_decay * kept
        heard = [momentum * one - weight_decay * k for one, k in zip(heard, moved, strict=True)]
        heard[step] += 1.0
        kept -= rate * buffer
        moved = [k + rate * one for k, one in zip(moved, heard, strict=True)]
    return kept, moved


def mean_gradient(observation: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return the observation with the weighted mean of the steps' gradients; of one step it is the gradient itself.

    Weights of steps are positive as long as weight decay is small. What the client's own rate differs from the
    prescribed one by stays as a factor, and so does a bound on gradients' norms.

    Args:
        observation: kind gradient or delta.
        knowledge: what the threat model grants.
        needed_by: for messages.

    Raises:
        UserError: the rate or the number of steps is withheld, or the optimizer is not sgd.
    """
    gradient = observation.as_gradient(knowledge, needed_by)
    steps, rates = steps_of(knowledge, None, needed_by), knowledge.assumed_rates(needed_by)
    if steps.weight_decay == 0 and len(rates) == 1:
        return gradient
    kept, moved = coefficients(rates, steps.momentum, steps.weight_decay)
    weight, assumed = sum(moved), sum(rates)
    update = {
        name: (assumed * value + (kept - 1) * observation.sent(name)) / weight
        for name, value in gradient.update.items()
    }
    return replace(gradient, update=update)


# The weights at which the mean gradient of several local steps was taken, to first order.


def at_mean_weights(gradient: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return an observed gradient with the mean weights of its steps in place of the broadcast ones.

    Args:
        gradient: one trial, as several have different mean weights; ``kind`` gradient.
        knowledge: what the threat model grants.
        needed_by: for messages.

    Raises:
        UserError: the rate or the number of steps is withheld.
    """
    steps = int(knowledge.require("local_steps", needed_by))
    way = -knowledge.assumed_rate(needed_by) * (steps - 1) / (2 * steps)
    moved = {
        name: value + way * gradient.update[name][0]
        for name, value in gradient.weights.items()
        if name in gradient.update
    }
    return replace(gradient, weights={**gradient.weights, **moved})
