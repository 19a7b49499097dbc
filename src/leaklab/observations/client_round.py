"""The round of captured clients: all together, or one by one where the defense changes their steps or batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.local import LocalResult, local_training
from leaklab.federated.network import TrainableNetwork
from leaklab.records.capture_spec import CaptureSpec

Build = Callable[[], nn.Sequential]


def client_round(
    spec: CaptureSpec,
    form: TrainableNetwork,
    state: Mapping[str, Tensor],
    batch: Batch,
    contexts: Sequence[ClientContext],
    defense: Defense,
    build: Build,
) -> LocalResult:
    """Train every client for one round from the same weights, on its own batch in every step.

    Args:
        spec: nominal steps and the schedule inside the round.
        form: the network.
        state: broadcast parameters and running statistics.
        batch: one batch a group of clients, [G, B, ...]; clients of a group are neighbours.
        contexts: one a client, G times the number of draws.
        defense: of all clients.
        build: gives a network of this architecture.

    Returns:
        ``rates`` and ``losses`` [T, E]; NaN in the steps that a client with fewer steps than others did not do.
    """
    if not (overrides(defense, "local_steps") or overrides(defense, "batch_size")):
        stacked = {name: value.expand(len(contexts), *value.shape) for name, value in state.items()}
        factors = spec.step_factors(spec.local_steps)
        batches = [batch] * spec.local_steps
        return local_training(form, stacked, batches, contexts, defense, step_factors=factors, build=build)
    clients, draws = [], len(contexts) // len(batch.labels)
    for place, context in enumerate(contexts):
        own = _group(batch, place // draws)
        steps = defense.local_steps(spec.local_steps, context)
        batches = list(_batches(own, steps, context, defense))
        single = {name: value.unsqueeze(0) for name, value in state.items()}
        factors = spec.step_factors(steps)
        clients.append(local_training(form, single, batches, [context], defense, step_factors=factors, build=build))
    return _joined(clients)


def _group(batch: Batch, group: int) -> Batch:
    return Batch(batch.images[group : group + 1], batch.labels[group : group + 1], {})


def _batches(own: Batch, steps: int, context: ClientContext, defense: Defense) -> Iterator[Batch]:
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
        torch.cat([_filled(getattr(client, name), steps) for client in clients]) for name in ("rates", "losses")
    )
    return LocalResult(weights, rates, losses)


def _filled(values: Tensor, steps: int) -> Tensor:
    """Return [1, E] as [1, steps], NaN at the end."""
    return torch.nn.functional.pad(values, (0, steps - values.shape[1]), value=torch.nan)
