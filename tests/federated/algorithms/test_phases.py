"""The whole contract, by algorithms made for it, against plain loops of modules and torch.optim in float64."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.defenses.base import Defense
from leaklab.federated import engine
from leaklab.federated.algorithms.base import Algorithm, Phase, chosen
from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

EXACT = {"rtol": 0, "atol": 1e-12}
HEAD_STEPS, HEAD_RATE, BOUND = 3, 0.2, 0.4


def is_head(name):
    return name.startswith("fc2.")


def is_body(name):
    return not is_head(name)


@dataclass(frozen=True)
class PrivateHead(Algorithm):
    """The head is the client's and moves first; then the body, its weights and its biases cut apart."""

    def server_start(self, network, draws):
        return chosen(network, is_body)

    def client_start(self, network, draws):
        return {name: value + 0.01 * draws.normal(*value.shape) for name, value in network.items() if is_head(name)}

    def phases(self, local_steps):
        groups = lambda name: name.rpartition(".")[2]  # noqa: E731
        return Phase(HEAD_STEPS, is_head, HEAD_RATE), Phase(local_steps, is_body, bound=BOUND, groups=groups)

    def upload(self, before, after):
        return chosen(after, is_body)


@dataclass(frozen=True)
class Scaled(PrivateHead):
    """As before, but the body's weights are generated: a client's own factor times what the server sends."""

    def client_start(self, network, draws):
        return {**super().client_start(network, draws), "factor": 1 + 0.1 * draws.normal()}

    def network(self, values):
        return {n: v if is_head(n) else v * values["factor"] for n, v in values.items() if n != "factor"}

    def upload(self, before, after):
        return chosen(after, lambda name: is_body(name) and name != "factor")


@pytest.fixture
def use(monkeypatch):
    real = engine.plugins.load

    def replaced(algorithm, defense=None):
        made = {"federated/algorithms": algorithm} | ({"defenses": defense} if defense else {})
        monkeypatch.setattr(engine.plugins, "load", lambda room, *rest: made.get(room) or real(room, *rest))

    return replaced


@pytest.fixture
def own(spec):
    def varied(**changes):
        more = {"partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"],
                "model": {"name": "cnn-small", "dropout": 0.0},
                "clients_per_round": 2, "algorithm": "fedavg", "rates": [[0.05]], "seeds": [5],
                "optimizer": {"name": "sgd", "momentum": 0.5}}  # fmt: skip
        return type(spec).model_validate(spec.model_dump() | more | changes)

    return varied


def loop(spec, algorithm, dataset, clients):
    """Return what server and clients hold at the end, by modules, autograd and torch.optim."""
    images, seed = dataset.normalised(dataset.train_images, torch.float64), spec.seeds[0]
    net = plugins.load("models", spec.model.name, spec.model.settings).initialised(
        dataset.shape, 4, seed, torch.float64
    )
    first = {name: value.clone() for name, value in net.state_dict().items()}
    server = dict(algorithm.server_start(first, None))
    kept = [dict(algorithm.client_start(first, stream(seed, "client", k, "start"))) for k in range(len(clients))]
    for index in range(spec.rounds):
        drawn = sampled_clients(seed, index, len(clients), spec.clients_per_round)
        mean = {name: torch.zeros_like(value) for name, value in server.items()}
        for k in drawn:
            values = {n: v.clone().requires_grad_() for n, v in {**server, **kept[k]}.items()}
            head = [v for n, v in values.items() if is_head(n)]
            body = {n: v for n, v in values.items() if is_body(n)}
            options = {"momentum": 0.5, "weight_decay": spec.weight_decay}
            optimizers = [torch.optim.SGD(head, lr=HEAD_RATE, **options),
                          torch.optim.SGD(list(body.values()), lr=spec.rates[0][0], **options)]  # fmt: skip
            steps = HEAD_STEPS + spec.local_steps
            visit = Visit(seed, k, index, clients[k])
            for step, batch in enumerate(visit.batch_indices(steps, spec.batch_size)):
                logits = functional_call(net, dict(algorithm.network(values)), (images[batch],))
                for optimizer in optimizers:
                    optimizer.zero_grad()
                F.cross_entropy(logits, dataset.train_labels[batch]).backward()
                for group in ("weight", "bias", "factor"):
                    members = [v for n, v in body.items() if n.endswith(group)]
                    if members:
                        nn.utils.clip_grad_norm_(members, BOUND)
                optimizers[step >= HEAD_STEPS].step()
            share = len(clients[k]) / sum(len(clients[j]) for j in drawn)
            kept[k] = {name: values[name].detach() for name in kept[k]}
            for name in mean:
                mean[name] += share * values[name].detach()
        server = mean
    return server, kept


TESTS = [torch.arange(4)] * 3


@pytest.mark.parametrize("algorithm", [PrivateHead(), Scaled()], ids=["private-head", "generated"])
@pytest.mark.parametrize("chunk", [1, 2])
def test_two_phases_with_private_values_equal_a_plain_loop(own, dataset, clients, use, algorithm, chunk):
    use(algorithm)
    spec = own()
    sweep = train(spec, dataset, clients, tests=TESTS, chunk=chunk)
    server, kept = loop(spec, algorithm, dataset, clients)
    assert_close({name: value[0] for name, value in sweep.weights.items()}, server, **EXACT)
    for k, wanted in enumerate(kept):
        assert_close({name: value[0, k] for name, value in sweep.clients.items()}, wanted, **EXACT)
    assert sweep.table["steps"].tolist()[-1] == spec.rounds * (HEAD_STEPS + spec.local_steps)


@dataclass(frozen=True)
class Gathering(Algorithm):
    """Neutral hooks written out, so that all of them are lifted."""

    def receive(self, server, client):
        return dict(server)

    def network(self, values):
        return {name: value * 1 for name, value in values.items()}

    def upload(self, before, after):
        return {name: after[name] - before[name] for name in after}

    def keep(self, client, after):
        return {}

    def absorb(self, server, client, message):
        return {name: server[name] + message[name] for name in message}, client

    def server_step(self, server, mean):
        return {name: mean[name] * 1 for name in server}


@pytest.mark.parametrize("model", ["mlp", "resnet-small"])
def test_lifted_hooks_that_change_nothing_change_nothing(own, dataset, clients, use, model):
    """With running statistics too, which the network writes in place."""
    spec = own(model=model, rates=[[0.05], [0.02]], evaluate=["test"])
    plain = train(type(spec).model_validate(spec.model_dump() | {"algorithm": "scheme2"}), dataset, clients)
    use(Gathering())
    lifted = train(spec, dataset, clients)
    assert_close(lifted.weights, plain.weights, **EXACT)
    assert_close(lifted.table["test_loss"].tolist(), plain.table["test_loss"].tolist(), **EXACT)


def test_a_defense_sees_what_leaves_the_client_and_nothing_else(own, dataset, clients, use):
    seen = {"gradient": set(), "update": set(), "network": set()}

    class Curious(Defense):
        def gradient(self, gradients, context):
            seen["gradient"] |= set(gradients)
            seen["network"] |= set(context.network().state_dict())
            return gradients

        def update(self, delta, context):
            seen["update"] |= set(delta)
            return delta

    spec = own(rounds=1)
    use(PrivateHead())
    plain = train(spec, dataset, clients, tests=TESTS)
    use(PrivateHead(), Curious())
    sweep = train(spec, dataset, clients, tests=TESTS)
    assert seen["gradient"] == seen["update"] == set(sweep.weights)
    assert seen["network"] == set(sweep.weights) | set(sweep.clients)
    assert_close(sweep.weights, plain.weights, **EXACT)
    assert_close(sweep.clients, plain.clients, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("hook", "function", "message"),
    [
        ("upload", lambda self, before, after: {"body": after["nowhere"]}, "upload failed with KeyError: 'nowhere'"),
        ("keep", lambda self, client, after: {}, r"keep gives nothing as 'fc2\.bias' where the state had \(4,\)"),
        (
            "server_step",
            lambda self, server, mean: {**mean, "more": mean["fc1.bias"]},
            "server_step gives .* as 'more'",
        ),
    ],
)
def test_an_algorithm_whose_code_fails_is_named_with_its_hook(own, dataset, clients, use, hook, function, message):
    use(type("Broken", (PrivateHead,), {hook: function})())
    with pytest.raises(UserError, match=r"federated/algorithms/test_phases\.py: " + message):
        train(own(), dataset, clients, tests=TESTS)


def test_an_algorithm_that_stands_for_another_network_is_refused(own, dataset, clients, use):
    use(type("Summed", (PrivateHead,), {"network": lambda self, values: {n: v.sum() for n, v in values.items()}})())
    with pytest.raises(UserError, match=r"'fedavg': network gives \(\) as 'conv1\.bias' where the model has \(\d+,\)"):
        train(own(), dataset, clients, tests=TESTS)


def test_a_phase_that_moves_nothing_is_refused(own, dataset, clients, use):
    @dataclass(frozen=True)
    class Idle(PrivateHead):
        def phases(self, local_steps):
            return (Phase(1, lambda name: False),)

    use(Idle())
    with pytest.raises(UserError, match="moves no value"):
        train(own(), dataset, clients, tests=TESTS)
