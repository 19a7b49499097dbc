"""The round of captured clients: all together, or one by one where the defense changes their steps or batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.local import LocalResult, local_training
from leaklab.federated.optimizers import Optimizer, Sgd

Build = Callable[[], nn.Sequential]
CHANGING = ("local_steps", "batch_size")


@dataclass(frozen=True)
class Steps:
    """How clients step in the captured round.

    Attributes:
        count: nominal number of local steps.
        rate: that the server prescribes in this round.
        factors: from a number of steps to the factor on the rate in each of them.
        optimizer: its state is new in every round.
        weight_decay: coefficient of the weights in the gradient.
    """

    count: int
    rate: float
    factors: Callable[[int], tuple[float, ...]]
    optimizer: Optimizer = field(default_factory=Sgd)
    weight_decay: float = 0.0

    @property
    def assumed_rate(self) -> float:
        """The sum of the rates of all nominal steps, by which the server turns a delta into a gradient."""
        return self.rate * sum(self.factors(self.count))


def client_round(
    steps: Steps,
    form: TrainableNetwork,
    state: Mapping[str, Tensor],
    defense: Defense,
    build: Build | None,
    batches: Sequence[Batch],
    contexts: Sequence[ClientContext],
) -> LocalResult:
    """Train every client for one round from the same weights.

    Args:
        steps: nominal steps and the schedule inside the round.
        form: the network.
        state: broadcast parameters and running statistics.
        defense: of all clients.
        build: gives a network of this architecture.
        batches: of each step, one batch a group of clients, [G, B, ...]; clients of a group are neighbours.
        contexts: one a client, G times the number of draws.

    Returns:
        ``rates`` and ``losses`` [T, E]; NaN in the steps that a client with fewer steps than others did not do.

    Raises:
        UserError: see ``local_training``.
    """

    def trained(used: Sequence[Batch], who: Sequence[ClientContext]) -> LocalResult:
        return local_training(
            form, {name: value.expand(len(who), *value.shape) for name, value in state.items()}, used, who, defense,
            optimizer=steps.optimizer, weight_decay=steps.weight_decay, step_factors=steps.factors(len(used)),
            build=build,
        )  # fmt: skip

    if not any(overrides(defense, hook) for hook in CHANGING):
        return trained(batches, contexts)
    clients = []
    for place, context in enumerate(contexts):
        own = part_of(batches, range(place, place + 1), len(contexts))[0]
        used = list(_changed(own, defense.local_steps(steps.count, context), context, defense))
        clients.append(trained(used, [context]))
    return _joined(clients)


def part_of(batches: Sequence[Batch], rows: range, clients: int) -> list[Batch]:
    """Return the batches of the clients ``rows`` of ``clients``, a group for each."""
    draws = clients // len(batches[0].labels)
    own = [row // draws for row in rows]
    return [
        Batch(batch.images[own], batch.labels[own], {name: mask[own] for name, mask in batch.masks.items()})
        for batch in batches
    ]


def _changed(own: Batch, steps: int, context: ClientContext, defense: Defense) -> Iterator[Batch]:
    """Yield the client's batch of each step: as many of its samples as the defense says, at most all of them."""
    samples = own.labels.shape[1]
    for _ in range(steps):
        size = min(defense.batch_size(samples, context), samples)
        chosen = context.stream("samples of a step").permutation(samples)[:size]
        yield own if size == samples else Batch(own.images[:, chosen], own.labels[:, chosen], {})


def _joined(clients: Sequence[LocalResult]) -> LocalResult:
    steps = max(client.rates.shape[1] for client in clients)
    weights = {name: torch.cat([client.weights[name] for client in clients]) for name in clients[0].weights}
    rates, losses = (
        torch.cat([filled(getattr(client, name), steps) for client in clients]) for name in ("rates", "losses")
    )
    return LocalResult(weights, rates, losses)


def filled(values: Tensor, steps: int) -> Tensor:
    """Return [T, E] as [T, steps], NaN at the end."""
    return torch.nn.functional.pad(values, (0, steps - values.shape[1]), value=torch.nan)
