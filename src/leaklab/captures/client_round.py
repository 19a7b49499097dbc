"""The round of captured clients: all together, or one by one where the defense changes their steps or batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from leaklab.captures.observe import Held, divisor, observe, silent
from leaklab.captures.start import Start
from leaklab.captures.truth import Truth
from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.local import LocalResult, local_training
from leaklab.federated.optimizers import Optimizer, Sgd
from leaklab.models.base import Architecture
from leaklab.models.normalisation import with_batch_statistics
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.servers.base import Server, Tensors, Victims
from leaklab.records import plugins
from leaklab.records.record import Component
from leaklab.specs.capture import CaptureSpec

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


# Capture by a malicious server: the same clients, who are sent other weights, as often as the server likes.


ROOM = "observations/servers"


def manipulated(
    spec: CaptureSpec, server: Component, start: Start, hold: Callable[[Start], Held[Truth]]
) -> tuple[Observation, Knowledge, Truth]:
    """Return what the server sees after its last query, what it is granted to know, and the samples it is after.

    The weights of the observation are those at which its update is the private samples' own.

    Args:
        spec: of the capture.
        server: the plug-in.
        start: the beginning of the round under an honest server.
        hold: from a beginning to what the clients hold.

    Raises:
        UserError: see ``Server`` and ``observe``.
    """
    plugin: Server = plugins.load(ROOM, server.name, server.settings)
    seen: list[tuple[Observation, Knowledge, Truth]] = []

    def ask(changed: Tensors) -> Tensors:
        # the defense's draws are named by the round
        asked = replace(start, state={**start.state, **changed}, round=start.round + len(seen))
        seen.append(observe(spec, hold(asked)))
        return seen[-1][0].update

    held = hold(start)
    victims = Victims(start.state, held.parameters, spec.batch_size, ask)
    caught = plugin.catch(victims)
    wanted = plugin.wanted(*_features(spec, start, held), victims)
    observation, knowledge, truth = seen[0]
    sent = {name: caught.changed.get(name, start.state[name]) for name in held.parameters}
    facts = {
        **knowledge.facts,
        "batch_size": caught.samples,
        "server": {"name": server.name, "settings": dict(server.settings)},
        "queries": caught.queries,
    }
    silence = observation.silent if held.diverged else silent(caught.update, sent.__getitem__, divisor(spec, held))
    return (
        replace(observation, weights=sent, update=caught.update, silent=silence),
        replace(knowledge, facts=facts),
        _only(truth, wanted),
    )


def _features(spec: CaptureSpec, start: Start, held: Held[Truth]) -> tuple[Tensor, Tensor]:
    """Return what the honest network's last layer is given in the clients' state, [T, B, F], and the labels [T, B]."""
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    network = architecture.build(start.dataset.shape, start.dataset.num_classes)
    network.to(getattr(torch, spec.dtype)).load_state_dict(dict(start.state), strict=True)
    batch = held.batches[0]
    layers = with_batch_statistics(network[:-1]) if spec.mode == "train" else network[:-1].eval()
    with torch.no_grad():
        features = torch.stack([layers(images) for images in batch.images])  # a batch has statistics of its own
    return features.repeat_interleave(held.draws, 0), batch.labels.repeat_interleave(held.draws, 0)


def _only(truth: Truth, wanted: Tensor) -> Truth:
    """Return the truth of the wanted samples, [T, S], alone."""
    trials = []
    for trial, places in zip(truth.trials, wanted.tolist(), strict=True):
        images = trial["image"] if isinstance(trial["image"], list) else [trial["image"]]
        own = [images[place] for place in places]
        trials.append({**trial, "image": own[0] if len(own) == 1 else own})
    rows = torch.arange(len(wanted))[:, None]
    return replace(truth, images=truth.images[rows, wanted], labels=truth.labels[rows, wanted], trials=tuple(trials))
