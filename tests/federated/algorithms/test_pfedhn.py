"""pFedHN and pFedHN-PC against a loop of modules, with autograd at the server; what is sent, what stays, refusals."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.federated import client_work
from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, is_hypernetwork
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SETTINGS = {"embedding": 5, "hidden": 7, "server_rate": 0.3, "spread": 0.5}
TESTS = [torch.arange(4)] * 3
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def personal(spec):
    def varied(private_layer="", **changes):
        base = {"partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"], "model": "cnn-leaky",
                "clients_per_round": 2, "rates": [[0.1]], "seeds": [5], "optimizer": {"name": "sgd", "momentum": 0.5},
                "algorithm": {"name": "pfedhn", "private_layer": private_layer, **SETTINGS}}  # fmt: skip
        return type(spec).model_validate(spec.model_dump() | base | changes)

    return varied


def generated(weights, v):
    u = F.relu(F.linear(v, weights[HIDDEN + WEIGHT], weights[HIDDEN + BIAS]))
    names = [n.removeprefix(HEADS).removesuffix(".bias") for n in weights if n.startswith(HEADS) and n.endswith(BIAS)]
    names = [name for name in names if HEADS + name + WEIGHT in weights]
    return {n: torch.einsum("...h,h->...", weights[HEADS + n + WEIGHT], u) + weights[HEADS + n + BIAS] for n in names}


def loop(spec, dataset, clients):
    """Return hypernetwork and clients' states; the server's gradient is that of -delta * h, a step of a."""
    images, seed, rate = dataset.normalised(dataset.train_images, torch.float64), spec.seeds[0], SETTINGS["server_rate"]
    algorithm = plugins.load("federated/algorithms", "pfedhn", spec.algorithm.settings)
    net = plugins.load("models", "cnn-leaky").initialised(dataset.shape, 4, seed, torch.float64)
    first = {name: value.clone() for name, value in net.state_dict().items()}
    server = dict(algorithm.server_start(first, stream(seed, "server", "start")))
    kept = [dict(algorithm.client_start(first, stream(seed, "client", k, "start"))) for k in range(len(clients))]
    for index in range(spec.rounds):
        drawn = sampled_clients(seed, index, len(clients), spec.clients_per_round)
        shares = [len(clients[k]) / sum(len(clients[j]) for j in drawn) for k in drawn]
        steps = {name: torch.zeros_like(value) for name, value in server.items()}
        for k, share in zip(drawn, shares, strict=True):
            leaves = {n: v.clone().requires_grad_() for n, v in {**server, "v": kept[k]["embedding"]}.items()}
            theta = generated(leaves, leaves["v"])
            private = {name: value for name, value in kept[k].items() if name != "embedding"}
            own = {n: v.detach().clone().requires_grad_() for n, v in {**theta, **private}.items()}
            optimizer = torch.optim.SGD(
                list(own.values()), lr=spec.rates[0][0], momentum=0.5, weight_decay=spec.weight_decay
            )
            for batch in Visit(seed, k, index, clients[k]).batch_indices(spec.local_steps, spec.batch_size):
                optimizer.zero_grad()
                F.cross_entropy(functional_call(net, own, (images[batch],)), dataset.train_labels[batch]).backward()
                optimizer.step()
            deltas = {name: own[name].detach() - value.detach() for name, value in theta.items()}
            sum((deltas[name] * theta[name]).sum() for name in theta).backward()
            kept[k] = {"embedding": kept[k]["embedding"] + rate * leaves["v"].grad} | {
                name: own[name].detach() for name in private
            }
            for name in steps:
                steps[name] += share * leaves[name].grad
        server = {name: value + rate * steps[name] for name, value in server.items()}
    return server, kept


@pytest.mark.parametrize(("private_layer", "chunk"), [("", 1), ("fc2", 3)])
def test_equals_a_loop_of_modules_over_clients_and_rounds(personal, dataset, clients, private_layer, chunk):
    spec = personal(private_layer)
    sweep = train(spec, dataset, clients, tests=TESTS, chunk=chunk)
    server, kept = loop(spec, dataset, clients)
    assert_close({name: value[0] for name, value in sweep.weights.items()}, server, **EXACT)
    assert set(kept[0]) == {"embedding"} | ({"fc2.weight", "fc2.bias"} if private_layer else set())
    for k, wanted in enumerate(kept):
        assert_close({name: value[0, k] for name, value in sweep.clients.items()}, wanted, **EXACT)


@pytest.mark.parametrize("private_layer", ["", "fc2"])
def test_a_client_sends_the_change_of_what_it_was_sent(personal, dataset, clients, monkeypatch, private_layer):
    sent, real = [], client_work.ClientWork.message

    def watched(self, before, after, contexts):
        found = real(self, before, after, contexts)
        sent.append((found, before, after))
        return found

    monkeypatch.setattr(client_work.ClientWork, "message", watched)
    sweep = train(personal(private_layer, rounds=1), dataset, clients, tests=TESTS)
    assert all(map(is_hypernetwork, sweep.weights))
    for found, before, after in sent:
        own = {"fc2.weight", "fc2.bias"} if private_layer else set()
        assert set(found) == set(after) - own
        assert "embedding" not in {*found, *before, *after}  # it never comes to the client
        assert_close(found, {name: after[name] - before[name] for name in found}, rtol=0, atol=0)


def test_a_layer_that_is_not_there_is_named(personal, dataset, clients):
    with pytest.raises(UserError, match="the model has no layer 'fc3': choose from conv1, conv2, fc1, fc2"):
        train(personal("fc3"), dataset, clients, tests=TESTS)
