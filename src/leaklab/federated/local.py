"""Local training: what a client does between receiving the global weights and sending its update.

The one road for the sweeps (M = replicates x clients) and for the capture of an attacked update (M = trials).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense, loaded, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.dense import DenseNetwork
from leaklab.federated.network import TrainableNetwork
from leaklab.federated.one_by_one import OneByOne, channels_last
from leaklab.federated.optimizers.base import Optimizer, Weights
from leaklab.federated.optimizers.sgd import Sgd


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


@dataclass
class Together:
    """The moment that M clients share: setting it once a step costs nothing, a context per client and step would.

    Attributes:
        step: the local step.
        weights: parameters, [M, ...].
        data: ``images`` [G, B, C, H, W] and ``labels`` [G, B]; empty after the last step.
        shared: models per batch, M / G.
        buffers: running statistics, [M, ...].
        build: gives a network of this architecture.
    """

    step: int = 0
    weights: Weights = field(default_factory=dict)
    data: Weights = field(default_factory=dict)
    shared: int = 1
    buffers: Weights = field(default_factory=dict)
    build: Callable[[], nn.Sequential] | None = None

    def weights_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the current parameters of a model."""
        return OneOfMany(self.weights, model)

    def batch_of(self, model: int) -> Mapping[str, Tensor]:
        """Return a model's images and labels."""
        return OneOfMany(self.data, model // self.shared)

    def network_of(self, model: int) -> nn.Sequential:
        """Return a model's network."""
        return loaded(self.build, {**OneOfMany(self.weights, model), **OneOfMany(self.buffers, model)})


def local_training(
    network: TrainableNetwork,
    weights: Weights,
    batches: Iterable[Batch],
    contexts: Sequence[ClientContext],
    defense: Defense,
    *,
    optimizer: Optimizer | None = None,
    weight_decay: float = 0.0,
    step_factors: Sequence[float] = (),
    build: Callable[[], nn.Sequential] | None = None,
) -> LocalResult:
    """Do one step per batch for M clients together.

    The gradient passes through the defense before weight decay and the optimizer, whose state is new in every call
    (one call is one round).

    Args:
        network: the network.
        weights: parameters and buffers before, by name, [M, ...]; not changed.
        batches: the E batches, each of G groups with G dividing M (see ``stacked`` for the order of models).
        contexts: one per model; ``scaled_rate`` is the nominal rate of the round times the client's factor.
        defense: gives every client its rate, gradient and update.
        optimizer: plain gradient descent if None.
        weight_decay: coefficient of the weights in the gradient.
        step_factors: schedule inside the round: factor on the rate of each step; empty for ones.
        build: gives a network of this architecture, for defenses that look into it.
    """
    optimizer = optimizer or Sgd()
    current = _copied(network, weights)
    parameters = {name: value for name, value in current.items() if name not in network.buffers}
    moment = Together(weights=parameters, buffers={name: current[name] for name in network.buffers}, build=build)
    clients = [context.at(moment, model) for model, context in enumerate(contexts)]
    state = optimizer.start(parameters)
    rates, losses = [], []
    for step, batch in enumerate(batches):
        moment.step, moment.data = step, {"images": batch.images, "labels": batch.labels}
        moment.shared = len(clients) // len(batch.labels)
        factor = step_factors[step] if step_factors else 1.0
        own = [factor * float(defense.local_rate(client)) for client in clients]
        rates.append(torch.tensor(own, dtype=torch.float64))
        used = rates[-1].to(next(iter(parameters.values())))
        if isinstance(network, DenseNetwork) and optimizer.plain and not overrides(defense, "gradient"):
            losses.append(network.descend(parameters, batch, used, weight_decay))
            continue
        loss, gradients = network.gradients(current, batch)
        optimizer.step(state, parameters, _defended_gradients(defense, gradients, clients), used, weight_decay)
        losses.append(loss)
    moment.step, moment.data = len(rates), {}
    sent = _defended_weights(defense, weights, current, parameters, clients, moment)
    return LocalResult(sent, torch.stack(rates, 1), torch.stack(losses, 1))


def _copied(network: TrainableNetwork, weights: Weights) -> dict[str, Tensor]:
    if isinstance(network, OneByOne):
        return channels_last(weights)
    return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}


def _defended_gradients(defense: Defense, gradients: Weights, clients: Sequence[ClientContext]) -> Weights:
    if not overrides(defense, "gradient"):
        return gradients
    return _stack([defense.gradient(OneOfMany(gradients, model), client) for model, client in enumerate(clients)])


def _defended_weights(
    defense: Defense,
    before: Weights,
    after: dict[str, Tensor],
    parameters: Weights,
    clients: Sequence[ClientContext],
    moment: Together,
) -> dict[str, Tensor]:
    """Return what the server receives; running statistics pass as they are."""
    if not overrides(defense, "update"):
        return after
    deltas = {name: value - before[name] for name, value in parameters.items()}
    moment.weights = {name: before[name] for name in parameters}
    sent = _stack([defense.update(OneOfMany(deltas, model), client) for model, client in enumerate(clients)])
    return {**after, **{name: before[name] + delta for name, delta in sent.items()}}


def _stack(clients: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([client[name] for client in clients]) for name in clients[0]}
