"""Local training: what a client does between receiving the global weights and sending its update.

The one road for the sweeps (M = replicates x clients) and for the capture of an attacked update (M = trials).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.stacked import StackedNetwork, Weights


@dataclass(frozen=True)
class LocalResult:
    """What M clients hold after local training.

    Attributes:
        weights: by name, [M, ...]; after the defense's ``update`` hook.
        rates: learning rates really used, [M, E], float64 on the CPU.
        losses: mean batch loss before each step, [M, E].
    """

    weights: dict[str, Tensor]
    rates: Tensor
    losses: Tensor


@dataclass(frozen=True, eq=False)
class OneOfMany(Mapping[str, Tensor]):
    """Model ``index`` of stacked tensors; a tensor is sliced only when it is asked for."""

    stacked: Mapping[str, Tensor]
    index: int

    def __getitem__(self, name: str) -> Tensor:
        return self.stacked[name][self.index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stacked)

    def __len__(self) -> int:
        return len(self.stacked)


def local_training(
    network: StackedNetwork,
    weights: Weights,
    batches: Iterable[Batch],
    contexts: Sequence[ClientContext],
    defense: Defense,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> LocalResult:
    """Do one SGD step per batch for M clients together: v <- momentum v + (g + decay W), W <- W - rate v.

    The gradient g passes through the defense first; the buffer v is new in every call (one call is one round).

    Args:
        network: the stacked network.
        weights: weights before, by name, [M, ...]; not changed.
        batches: the E batches, each of G groups with G dividing M (see ``stacked`` for the order of models).
        contexts: one per model; ``scaled_rate`` is the nominal rate of the round times the client's factor.
        defense: gives every client its rate, gradient and update.
        momentum: in [0, 1).
        weight_decay: coefficient of the weights in the gradient.
    """
    parameters = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    buffers: dict[str, Tensor] = {}
    rates, losses = [], []
    for step, batch in enumerate(batches):
        loss = network.losses(parameters, batch.images, batch.labels, batch.masks)
        gradients = dict(zip(parameters, torch.autograd.grad(loss.sum(), list(parameters.values())), strict=True))
        current = _at_step(defense, contexts, step, parameters, batch)
        directions = _defended_gradients(defense, gradients, current)
        rates.append(_local_rates(defense, current))
        _descend(parameters, directions, buffers, rates[-1], momentum, weight_decay)
        losses.append(loss.detach())
    after = {name: value.detach() for name, value in parameters.items()}
    sent = _defended_weights(defense, weights, after, contexts, steps=len(rates))
    return LocalResult(sent, torch.stack(rates, 1), torch.stack(losses, 1))


def _at_step(
    defense: Defense, contexts: Sequence[ClientContext], step: int, parameters: Weights, batch: Batch
) -> Sequence[ClientContext]:
    if not (overrides(defense, "local_rate") or overrides(defense, "gradient")):
        return contexts
    shared = len(contexts) // len(batch.labels)
    frozen = {name: value.detach() for name, value in parameters.items()}
    data = {"images": batch.images, "labels": batch.labels}
    return [
        context.at_step(step, OneOfMany(frozen, model), OneOfMany(data, model // shared))
        for model, context in enumerate(contexts)
    ]


def _local_rates(defense: Defense, contexts: Sequence[ClientContext]) -> Tensor:
    if not overrides(defense, "local_rate"):
        return torch.tensor([context.scaled_rate for context in contexts], dtype=torch.float64)
    return torch.stack([defense.local_rate(context).to("cpu", torch.float64) for context in contexts])


def _defended_gradients(defense: Defense, gradients: Weights, contexts: Sequence[ClientContext]) -> Weights:
    if not overrides(defense, "gradient"):
        return gradients
    return _stack([defense.gradient(OneOfMany(gradients, model), context) for model, context in enumerate(contexts)])


def _defended_weights(
    defense: Defense, before: Weights, after: dict[str, Tensor], contexts: Sequence[ClientContext], steps: int
) -> dict[str, Tensor]:
    if not overrides(defense, "update"):
        return after
    deltas = {name: after[name] - before[name] for name in after}
    sent = _stack(
        [
            defense.update(OneOfMany(deltas, model), context.at_step(steps, OneOfMany(before, model), {}))
            for model, context in enumerate(contexts)
        ]
    )
    return {name: before[name] + sent[name] for name in after}


def _stack(clients: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([client[name] for client in clients]) for name in clients[0]}


@torch.no_grad()
def _descend(
    parameters: dict[str, Tensor],
    gradients: Weights,
    buffers: dict[str, Tensor],
    rates: Tensor,
    momentum: float,
    weight_decay: float,
) -> None:
    # large temporaries cost more than the arithmetic: everything happens in the parameters and buffers
    for name, parameter in parameters.items():
        rate = rates.to(parameter).view(-1, *[1] * (parameter.dim() - 1))
        if momentum:
            if name not in buffers:
                buffers[name] = torch.zeros_like(parameter)
            direction = buffers[name].mul_(momentum).add_(gradients[name]).add_(parameter, alpha=weight_decay)
        else:
            direction = gradients[name]
            parameter.mul_(1 - weight_decay * rate)
        parameter.addcmul_(direction, rate, value=-1)
