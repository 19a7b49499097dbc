"""Local training: what a client does between receiving the global weights and sending its update.

The one road for the sweeps (M = replicates x clients) and for the capture of an attacked update (M = trials).
"""

import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense, check_hook, loaded, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.clipping import clipped_gradients
from leaklab.federated.forms.dense import DenseNetwork
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.forms.one_by_one import OneByOne, channels_last
from leaklab.federated.forms.seen import Seen
from leaklab.federated.optimizers import Optimizer, Sgd, Weights
from leaklab.records.errors import UserError
from leaklab.records.purity import watched

IN_STEPS = ("local_rate", "gradient", "sample_bound")
PRIVATE_DRAWS = "context.stream(name)"


@dataclass(frozen=True)
class LocalResult:
    """What M clients hold after local training.

    Attributes:
        weights: by name, [M, ...].
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
        batch_size: what the sums over samples were divided by.
        buffers: running statistics, [M, ...].
        build: gives a network of this architecture.
        whole: what the network holds where ``weights`` and ``buffers`` are only values behind it or a part of it.
    """

    step: int = 0
    weights: Weights = field(default_factory=dict)
    data: Weights = field(default_factory=dict)
    shared: int = 1
    batch_size: int = 0
    buffers: Weights = field(default_factory=dict)
    build: Callable[[], nn.Sequential] | None = None
    whole: Callable[[Weights], Weights] = dict

    def weights_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the current parameters of a model."""
        return OneOfMany(self.weights, model)

    def batch_of(self, model: int) -> Mapping[str, Tensor]:
        """Return a model's images and labels."""
        return OneOfMany(self.data, model // self.shared)

    def network_of(self, model: int) -> nn.Sequential:
        """Return a model's network."""
        return loaded(self.build, OneOfMany(self.whole({**self.weights, **self.buffers}), model))


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
    """Do the steps of M clients together (see ``local_steps``) and let the defense change what they send.

    Returns:
        The result with the weights that the server receives.
    """
    done = local_steps(
        network, weights, batches, contexts, defense,
        optimizer=optimizer, weight_decay=weight_decay, step_factors=step_factors, build=build,
    )  # fmt: skip
    steps = done.losses.shape[1]
    sent = sent_weights(network, weights, done.weights, contexts, defense, steps=steps, build=build)
    return replace(done, weights=sent)


def local_steps(
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
    private: Container[str] = (),
) -> LocalResult:
    """Do one step per batch for M clients together.

    The gradient passes through the defense before weight decay and the optimizer, whose state is new in every call
    (one call is one phase of a round).

    Args:
        network: the network.
        weights: parameters and buffers before, by name, [M, ...]; not changed.
        batches: the E batches, each of G groups with G dividing M (see ``stacked`` for the order of models).
        contexts: one per model; ``scaled_rate`` is the nominal rate of the round times the client's factor.
        defense: gives every client its rate and gradient; its ``update`` is not called.
        optimizer: plain gradient descent if None.
        weight_decay: coefficient of the weights in the gradient.
        step_factors: schedule inside the round: factor on the rate of each step; empty for ones.
        build: gives a network of this architecture, for defenses that look into it.
        private: names of parameters that never leave the client: the defense does not see their gradients.

    Raises:
        UserError: no value moves.
    """
    optimizer = optimizer or Sgd()
    hooks = any(overrides(defense, hook) for hook in IN_STEPS)
    who = [*([defense] if hooks else ()), optimizer, _model(build)]
    ours = isinstance(network, DenseNetwork) and optimizer.plain and not hooks  # no plug-in is called in such steps
    with watched(*who, call="a local step", draws="" if ours else f"{PRIVATE_DRAWS} in a defense; others draw nothing"):
        return _steps(
            network, weights, batches, contexts, defense, optimizer, weight_decay, step_factors, build, private
        )


def _steps(
    network: TrainableNetwork,
    weights: Weights,
    batches: Iterable[Batch],
    contexts: Sequence[ClientContext],
    defense: Defense,
    optimizer: Optimizer,
    weight_decay: float,
    step_factors: Sequence[float],
    build: Callable[[], nn.Sequential] | None,
    private: Container[str],
) -> LocalResult:
    """Do what ``local_steps`` says."""
    current = _copied(network, weights)
    parameters = {name: value for name, value in current.items() if name not in network.buffers}
    if not parameters:
        raise UserError("a phase of local training moves no value: choose other steps or names in the algorithm")
    moment = Together(weights=parameters, buffers={name: current[name] for name in network.buffers}, build=build)
    if isinstance(network, Seen):
        moment.whole = network.whole
    clients = [context.at(moment, model) for model, context in enumerate(contexts)]
    shared = frozenset(name for name in parameters if name not in private)
    state = optimizer.start(parameters)
    rates, losses = [], []
    model = _model(build)
    for step, batch in enumerate(batches):
        moment.step, moment.data = step, {"images": batch.images, "labels": batch.labels}
        moment.shared, moment.batch_size = len(clients) // len(batch.labels), batch.size
        factor = step_factors[step] if step_factors else 1.0
        own = [factor * float(defense.local_rate(client)) for client in clients]
        rates.append(torch.tensor(own, dtype=torch.float64))
        used = rates[-1].to(next(iter(parameters.values())))
        if isinstance(network, DenseNetwork) and optimizer.plain and not _changes_gradients(defense):
            losses.append(network.descend(parameters, batch, used, weight_decay))
            continue
        # who works in place does so from the first step on, and later ones are not to pay for it
        with watched(model, call="its forward pass", given={} if step else {"images": batch.images}):
            loss, gradients = _gradients(network, current, batch, clients, defense, shared)
        defended = _defended_gradients(defense, gradients, clients, private)
        with watched(optimizer, call="step", given={} if step else {"gradients": defended}):
            optimizer.step(state, parameters, defended, used, weight_decay)
        losses.append(loss)
    return LocalResult(current, torch.stack(rates, 1), torch.stack(losses, 1))


def sent_weights(
    network: TrainableNetwork,
    before: Weights,
    after: dict[str, Tensor],
    contexts: Sequence[ClientContext],
    defense: Defense,
    *,
    steps: int,
    build: Callable[[], nn.Sequential] | None = None,
) -> dict[str, Tensor]:
    """Return what the server receives of M clients: the defense's ``update`` changes ``after`` minus ``before``.

    Args:
        network: the network; its running statistics pass as they are.
        before: what was received, by name, [M, ...].
        after: what would be sent without a defense, by the same names.
        contexts: one per model; private streams go on from the steps.
        defense: whose ``update`` is called.
        steps: how many were done.
        build: gives a network of this architecture, for defenses that look into it.
    """
    if not overrides(defense, "update"):
        return after
    names = [name for name in after if name not in network.buffers]
    moment = Together(step=steps, weights={name: before[name] for name in names}, build=build)
    moment.buffers = {name: value for name, value in after.items() if name in network.buffers}
    clients = [context.at(moment, model) for model, context in enumerate(contexts)]
    deltas = {name: after[name] - before[name] for name in names}
    given = {"its argument": deltas, "context.weights": moment.weights}
    with watched(defense, call="update", given=given, draws=PRIVATE_DRAWS):
        own = [defense.update(OneOfMany(deltas, model), client) for model, client in enumerate(clients)]
    check_hook(defense, "update", own[0], OneOfMany(deltas, 0))
    sent = _stack(own)
    return {**after, **{name: before[name] + delta for name, delta in sent.items()}}


def _model(build: Callable[[], nn.Sequential] | None) -> object:
    """Return the architecture whose network ``build`` gives, for messages; a word where nobody says it."""
    return getattr(getattr(build, "func", None), "__self__", "the network")


def _copied(network: TrainableNetwork, weights: Weights) -> dict[str, Tensor]:
    if isinstance(network, OneByOne):
        return channels_last(weights)
    return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}


def _changes_gradients(defense: Defense) -> bool:
    return overrides(defense, "gradient") or overrides(defense, "sample_bound")


def _gradients(
    network: TrainableNetwork,
    current: Weights,
    batch: Batch,
    clients: Sequence[ClientContext],
    defense: Defense,
    shared: Collection[str],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the losses and the gradients of what moves, clipped per sample where the defense says so."""
    if not overrides(defense, "sample_bound"):
        return network.gradients(current, batch)
    given = [defense.sample_bound(client) for client in clients]
    bounds = batch.images.new_tensor([math.inf if bound is None else bound for bound in given])
    if not isinstance(network, Seen):
        return clipped_gradients(network, current, batch, bounds, shared)
    loss, found = clipped_gradients(network.form, network.whole(current), batch, bounds, shared)
    return loss, {name: found[name] for name in current if name not in network.buffers}


def _defended_gradients(
    defense: Defense, gradients: Weights, clients: Sequence[ClientContext], private: Container[str]
) -> Weights:
    seen = {name: value for name, value in gradients.items() if name not in private}
    if not seen or not overrides(defense, "gradient"):
        return gradients
    moment = clients[0].moment
    given: dict[str, Mapping[str, Tensor]] = {}
    if isinstance(moment, Together) and moment.step == 0:
        given = {"its argument": seen, "context.weights": moment.weights, "context.batch": moment.data}
    with watched(defense, call="gradient", given=given):
        own = [defense.gradient(OneOfMany(seen, model), client) for model, client in enumerate(clients)]
    if clients[0].step == 0:
        check_hook(defense, "gradient", own[0], OneOfMany(seen, 0))
    return {**gradients, **_stack(own)}


def _stack(clients: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([client[name] for client in clients]) for name in clients[0]}
