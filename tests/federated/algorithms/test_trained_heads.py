"""Heads of a hypernetwork that nobody forms: their sum, their networks, and when somebody needs them after all."""

from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

from leaklab.defenses.base import Defense
from leaklab.federated import engine
from leaklab.federated.algorithms.hyperfl import HyperFL
from leaklab.federated.engine import train
from leaklab.federated.forms.low_rank import Heads, TrainedHeads, _Layout, generate
from leaklab.models.hypernetwork import HEADS, HIDDEN, WEIGHT, Hypernetwork, is_hypernetwork
from leaklab.records.streams import stream

MODELS, STEPS, TESTS = 4, 5, [torch.arange(4)] * 3
EXACT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture
def values():
    """What four clients hold: a hypernetwork for two tensors, an embedding and a classifier."""
    network = {name: stream(0, name).normal(*shape).double() for name, shape in (("a", (3, 2)), ("b", (4,)))}
    weights = Hypernetwork(embedding=3, hidden=6, spread=0.5).first_weights(network, stream(0, "start"))
    stacked = {name: value.expand(MODELS, *value.shape) for name, value in weights.items()}
    own = {name: stream(0, name).normal(MODELS, 3).double() for name in ("embedding", "classifier")}
    return {**stacked, **own}


def trained(values, shared):
    """Return heads after some steps with momentum and decay, that began alike (``shared``) or each elsewhere."""
    draws, layout = stream(1, "steps"), _Layout(values)
    first = layout.first_heads(values)
    if not shared:
        first = first + draws.normal(MODELS, *first.shape[1:]).double()
    heads = Heads(first, MODELS, STEPS)
    for _ in range(STEPS):
        g, u = draws.normal(MODELS, first.shape[1]).double(), draws.normal(MODELS, first.shape[2]).double()
        heads.step(g, u, draws.normal(MODELS).double().abs(), torch.linspace(0.05, 0.2, MODELS).double(), 0.5, 0.02)
    return TrainedHeads(heads, layout)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("models", [[0, 1, 2, 3], [2], [3, 1]])
def test_the_sum_is_that_of_the_formed_heads(values, shared, models):
    heads, weights = trained(values, shared), [0.1, 0.7, 0.3, 0.2][: len(models)]
    formed = heads.formed()
    assert set(formed) == set(heads.names) == {f"{HEADS}{name}{WEIGHT}" for name in ("a", "b")}
    for name, value in heads.sum(models, weights).items():
        assert_close(value, sum(w * formed[name][m] for m, w in zip(models, weights, strict=True)), **EXACT)


@pytest.mark.parametrize("shared", [True, False])
def test_the_networks_are_those_of_the_formed_heads(values, shared):
    heads = trained(values, shared)
    found, wanted = heads.networks(values, "embedding"), generate({**values, **heads.formed()}, "embedding")
    assert list(found) == list(wanted)
    assert "classifier" in found
    assert HIDDEN + WEIGHT not in found
    for name, value in wanted.items():
        assert_close(found[name], value, **EXACT)


@dataclass(frozen=True)
class Halving(HyperFL):
    """Sends heads of its own making."""

    def upload(self, before, after):
        return {
            name: value / 2 if name.startswith(HEADS) else value
            for name, value in super().upload(before, after).items()
        }


@dataclass(frozen=True)
class Enumerating(HyperFL):
    """Asks for each value by the name that it received, heads among them."""

    def upload(self, before, after):
        return {name: after[name] for name in before if is_hypernetwork(name)}


@dataclass(frozen=True)
class Twofold(HyperFL):
    """Sends a head under a second name, too."""

    def server_start(self, network, draws):
        held = super().server_start(network, draws)
        return {**held, "second": held[f"{HEADS}conv1.bias{WEIGHT}"]}

    def receive(self, server, client):
        return super().receive({name: value for name, value in server.items() if name != "second"}, client)

    def upload(self, before, after):
        return {**super().upload(before, after), "second": after[f"{HEADS}conv1.bias{WEIGHT}"]}


@dataclass(frozen=True)
class Distrusting(HyperFL):
    """A server that looks at each client's message."""

    def absorb(self, server, client, message):
        return {name: (value + server[name]) / 2 for name, value in message.items()}, client


class Rounded(Defense):
    def update(self, delta, context):
        return {name: value.mul(1000).round() / 1000 for name, value in delta.items()}


@pytest.fixture
def formed(monkeypatch):
    """Counts how often clients' heads were formed."""
    calls, real = [], Heads.whole
    monkeypatch.setattr(Heads, "whole", lambda self: calls.append(1) or real(self))
    return calls


@pytest.fixture
def trains(spec, dataset, clients, monkeypatch):
    """Trains HyperFL, or algorithm and defense of a test's own."""
    real = engine.plugins.load

    def run(algorithm, defense=None, **changes):
        settings = {"name": "hyperfl", "embedding": 6, "hidden": 9, "classifier_steps": 2, "bound": 0.5}
        base = {"partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"], "model": "cnn-leaky",
                "clients_per_round": None, "rates": [[0.1], [0.2]], "seeds": [5, 6], "rounds": 2,
                "optimizer": {"name": "sgd", "momentum": 0.5}, "algorithm": settings}  # fmt: skip
        own = {key: value for key, value in settings.items() if key != "name"}
        made = {"federated/algorithms": algorithm(**own, **changes), "defenses": defense}
        monkeypatch.setattr(engine.plugins, "load", lambda room, *rest: made.get(room) or real(room, *rest))
        return train(type(spec).model_validate(spec.model_dump() | base), dataset, clients, tests=TESTS, chunk=4)

    return run


def test_a_training_forms_no_client_s_heads(trains, formed):
    trains(HyperFL)
    assert not formed


@pytest.mark.parametrize(
    ("algorithm", "defense"),
    [*((own, None) for own in (Halving, Enumerating, Twofold, Distrusting)), (HyperFL, Rounded())],
)
def test_whoever_changes_what_is_sent_gets_formed_heads(trains, formed, algorithm, defense):
    sweep = trains(algorithm, defense)
    assert formed
    slow = trains(algorithm, defense, low_rank=False)
    for name, value in slow.weights.items():
        # a rounding may fall to the other side
        assert_close(sweep.weights[name], value, rtol=0, atol=2e-3 if defense else 1e-11)
