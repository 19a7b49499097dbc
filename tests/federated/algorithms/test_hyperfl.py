"""HyperFL against a loop of modules and torch.optim in float64; what moves, what leaves, and what is refused."""

from math import prod

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.defenses.base import Defense
from leaklab.federated import client_work, engine
from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.models import hypernetwork
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, generated_names, is_hypernetwork
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SETTINGS = {"embedding": 6, "hidden": 9, "classifier_steps": 3, "classifier_rate": 0.2, "bound": 0.1, "spread": 0.5}
# bounds that cut the gradient of one part in some steps and not in others
CUTTING = {"hyper": 2.0, "embedding": 0.1}
TESTS = [torch.arange(4)] * 3
LOOP = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture
def hyper(spec):
    def varied(algorithm=None, **changes):
        base = {"partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"], "model": "cnn-leaky",
                "clients_per_round": 2, "rates": [[0.1]], "seeds": [5], "weight_decay": 0.02,
                "optimizer": {"name": "sgd", "momentum": 0.5}}  # fmt: skip
        settings = {"name": "hyperfl", **SETTINGS, **(algorithm or {})}
        return type(spec).model_validate(spec.model_dump() | base | {"algorithm": settings} | changes)

    return varied


class Generated(nn.Module):
    """A hypernetwork of ordinary layers, one for each tensor, with the same first weights as a state."""

    def __init__(self, weights, shapes):
        super().__init__()
        self.shapes = shapes
        hidden, embedding = weights[HIDDEN + WEIGHT].shape
        self.trunk = nn.Linear(embedding, hidden).double()
        self.trunk.load_state_dict({"weight": weights[HIDDEN + WEIGHT], "bias": weights[HIDDEN + BIAS]})
        self.heads = nn.ModuleList(nn.Linear(hidden, prod(shape)).double() for shape in shapes.values())
        for name, head in zip(shapes, self.heads, strict=True):
            bias = weights[HEADS + name + BIAS].flatten()
            head.load_state_dict({"weight": weights[HEADS + name + WEIGHT].reshape(-1, hidden), "bias": bias})

    def forward(self, v):
        u = F.relu(self.trunk(v))
        return {n: head(u).view(s) for (n, s), head in zip(self.shapes.items(), self.heads, strict=True)}

    def state(self):
        found = {HIDDEN + WEIGHT: self.trunk.weight, HIDDEN + BIAS: self.trunk.bias}
        for (name, shape), head in zip(self.shapes.items(), self.heads, strict=True):
            found[HEADS + name + WEIGHT] = head.weight.view(*shape, -1)
            found[HEADS + name + BIAS] = head.bias.view(shape)
        return {name: value.detach().clone() for name, value in found.items()}


def loop(spec, dataset, clients):
    """Return what server and clients hold at the end, and the norms of the second phase's gradients."""
    images, seed = dataset.normalised(dataset.train_images, torch.float64), spec.seeds[0]
    algorithm = plugins.load("federated/algorithms", "hyperfl", spec.algorithm.settings)
    net = plugins.load("models", "cnn-leaky").initialised(dataset.shape, 4, seed, torch.float64)
    first = {name: value.clone() for name, value in net.state_dict().items()}
    server = dict(algorithm.server_start(first, stream(seed, "server", "start")))
    kept = [dict(algorithm.client_start(first, stream(seed, "client", k, "start"))) for k in range(len(clients))]
    shapes = {name: first[name].shape for name in first if not name.startswith("fc2.")}
    momentum = spec.optimizer.settings.get("momentum", 0.0)
    norms = {"hyper": [], "embedding": []}
    for index in range(spec.rounds):
        drawn = sampled_clients(seed, index, len(clients), spec.clients_per_round)
        total = {name: torch.zeros_like(value) for name, value in server.items()}
        for k in drawn:
            generate, v = Generated(server, shapes), kept[k]["embedding"].clone().requires_grad_()
            head = {name: kept[k][name].clone().requires_grad_() for name in kept[k] if name.startswith("fc2.")}
            options = {"momentum": momentum, "weight_decay": spec.weight_decay}
            of_head = torch.optim.SGD(list(head.values()), lr=SETTINGS["classifier_rate"], **options)
            of_hyper = torch.optim.SGD([*generate.parameters(), v], lr=spec.rates[0][0], **options)
            steps = SETTINGS["classifier_steps"] + spec.local_steps
            for step, batch in enumerate(Visit(seed, k, index, clients[k]).batch_indices(steps, spec.batch_size)):
                logits = functional_call(net, {**generate(v), **head}, (images[batch],))
                of_head.zero_grad()
                of_hyper.zero_grad()
                F.cross_entropy(logits, dataset.train_labels[batch]).backward()
                if step < SETTINGS["classifier_steps"]:
                    of_head.step()
                    continue
                bound = spec.algorithm.settings["bound"]
                if bound is not None:
                    norms["hyper"].append(float(nn.utils.clip_grad_norm_(generate.parameters(), bound)))
                    norms["embedding"].append(float(nn.utils.clip_grad_norm_([v], bound)))
                of_hyper.step()
            kept[k] = {"embedding": v.detach(), **{name: value.detach() for name, value in head.items()}}
            share = len(clients[k]) / sum(len(clients[j]) for j in drawn)
            for name, value in generate.state().items():
                total[name] += share * value
        server = total
    return server, kept, norms


@pytest.mark.parametrize(
    ("low_rank", "momentum", "chunk", "cut"),
    [
        (False, 0.5, 1, "hyper"), (False, 0.0, 3, "embedding"),
        (True, 0.5, 1, "embedding"), (True, 0.5, 3, "hyper"), (True, 0.0, 3, "embedding"),
    ],
)  # fmt: skip
def test_equals_a_loop_of_modules_over_clients_and_rounds(hyper, dataset, clients, low_rank, momentum, chunk, cut):
    """Which also says that the new hypernetwork is the mean of the clients' by samples, and who sits out is kept."""
    bound = CUTTING[cut]
    spec = hyper({"low_rank": low_rank, "bound": bound}, optimizer={"name": "sgd", "momentum": momentum})
    sweep = train(spec, dataset, clients, tests=TESTS, chunk=chunk)
    server, kept, norms = loop(spec, dataset, clients)
    assert min(norms[cut]) < bound < max(norms[cut])
    assert_close({name: value[0] for name, value in sweep.weights.items()}, server, **LOOP)
    for k, wanted in enumerate(kept):
        assert_close({name: value[0, k] for name, value in sweep.clients.items()}, wanted, **LOOP)


@pytest.mark.parametrize(
    "case",
    [
        {"model": "mlp", "algorithm": {"bound": None}},
        {"model": {"name": "mlp", "dropout": 0.0}, "weight_decay": 0.0},
        {"model": "cnn-small", "rates": [[0.05], [0.1, 0.02, 0.05]], "seeds": [5, 6]},
        {"algorithm": {"start": "weights"}, "schedule": "cosine", "local_steps": 9},
        {"algorithm": {"start": "pytorch", "classifier_steps": 0}},
    ],
)
def test_the_low_rank_form_is_the_lifted_form(hyper, dataset, clients, case):
    """Replicates with a hypernetwork each, rates of their own, dropout, no bound, other starts."""
    case = {**case, "clients_per_round": None}
    algorithm = case.pop("algorithm", {})
    fast, lifted = (
        train(hyper({**algorithm, "low_rank": low_rank}, **case), dataset, clients, tests=TESTS, chunk=4)
        for low_rank in (True, False)
    )
    assert_close(fast.weights, lifted.weights, rtol=1e-10, atol=1e-12)
    assert_close(fast.clients, lifted.clients, rtol=1e-10, atol=1e-12)
    for column in ("own_before_loss", "own_after_loss"):
        assert fast.table[column].to_numpy() == pytest.approx(lifted.table[column].to_numpy(), rel=1e-10)


@pytest.mark.parametrize("low_rank", [True, False])
def test_generated_dense_layers_may_share_a_batch(hyper, dataset, clients, low_rank):
    """Their weights are slices of one tall product, so they do not lie side by side."""
    spec = hyper({"low_rank": low_rank}, model="mlp", rates=[[0.05], [0.1]])
    together, alone = (train(spec, dataset, clients, tests=TESTS, chunk=chunk) for chunk in (4, 1))
    assert_close(together.weights, alone.weights, rtol=1e-10, atol=1e-12)


def test_the_low_rank_form_is_taken_where_it_fits_and_only_there(hyper, dataset, clients, monkeypatch):
    calls, real = [], client_work.low_rank_steps
    monkeypatch.setattr(client_work, "low_rank_steps", lambda *a, **k: calls.append(1) or real(*a, **k))

    def count(**changes):
        calls.clear()
        train(hyper(rounds=1, clients_per_round=None, **changes), dataset, clients, tests=TESTS, chunk=1)
        return len(calls)

    assert count() == 3
    assert count(algorithm={"low_rank": False}) == 0
    assert count(optimizer="adam") == 0
    assert count(defense="lrp") == 0
    assert count(defense="laplace-noise") == 0
    assert count(model="resnet-small") == 0  # running statistics move too


def test_the_low_rank_form_holds_in_single_precision_over_many_steps(hyper, dataset, clients):
    case = {"local_steps": 40, "rounds": 2, "dtype": "float32", "clients_per_round": None}
    fast, lifted = (train(hyper({"low_rank": on}, **case), dataset, clients, tests=TESTS) for on in (True, False))
    for name, value in lifted.weights.items():
        assert_close(fast.weights[name], value, rtol=0, atol=1e-4 * float(value.abs().max()))


def test_each_phase_moves_only_what_it_may(hyper, dataset, clients, monkeypatch):
    seen = []
    real = client_work.ClientWork._phase

    def watched(self, phase, values, *rest):
        before = {name: value.clone() for name, value in values.items()}
        result, heads = real(self, phase, values, *rest)
        after = {**values, **result.weights, **(heads.formed() if heads else {})}
        assert all(torch.equal(value, before[name]) for name, value in values.items())  # nothing in place
        seen.append({name for name in after if not torch.equal(after[name], before[name])})
        return result, heads

    monkeypatch.setattr(client_work.ClientWork, "_phase", watched)
    spec = hyper(rounds=1, clients_per_round=1)
    sweep = train(spec, dataset, clients, tests=TESTS[:3], chunk=1)
    classifier = {"fc2.weight", "fc2.bias"}
    assert set(sweep.clients) == {"embedding"} | classifier
    # the client that takes part, and the two that are trained for their tests
    assert seen == [classifier, set(sweep.weights) | {"embedding"}] * 3


def test_running_statistics_stay_with_the_client_and_rest_while_the_classifier_moves(hyper, dataset, clients):
    spec = hyper(model="resnet-small", rounds=1, local_steps=1, clients_per_round=None)
    sweep = train(spec, dataset, clients, tests=TESTS)
    statistics = {name for name in sweep.clients if name.endswith(("running_mean", "running_var"))}
    assert statistics
    assert not any("running" in name for name in sweep.weights)
    assert all(float((sweep.clients[name][0, 0] - sweep.clients[name][0, 1]).abs().max()) > 0 for name in statistics)
    still = train(hyper({"classifier_steps": 5}, model="resnet-small", rounds=1, local_steps=1), dataset, clients,
                  tests=TESTS).clients  # fmt: skip
    layer = next(iter(sorted(statistics)))
    # one step of the second phase moves a mean by a tenth of what the batch says, however long the first phase was
    assert float(still[layer].abs().max()) < 1


def message(spec, dataset, clients, monkeypatch, defense=None):
    """Return the messages of a round's clients, and what they had after local training."""
    found = []
    real = client_work.ClientWork.message

    def watched(self, before, after, contexts):
        sent = real(self, before, after, contexts)
        found.append(({n: v.clone() for n, v in sent.items()}, {n: v.clone() for n, v in after.items()}))
        return sent

    monkeypatch.setattr(client_work.ClientWork, "message", watched)
    # messages are whole then, and not heads' weights of which only the mean is taken (test_trained_heads.py)
    monkeypatch.setattr(client_work.ClientWork, "sends_as_trained", lambda *_: False)
    if defense:
        load = engine.plugins.load
        monkeypatch.setattr(
            engine.plugins, "load", lambda room, *rest: defense if room == "defenses" else load(room, *rest)
        )
    train(spec, dataset, clients, tests=TESTS)
    return found


def test_before_local_training_a_client_is_tested_with_the_new_hypernetwork_and_what_it_kept(hyper, dataset, clients):
    """Also one that sat out; its own training for the test after it is thrown away."""
    own = {"clients_per_round": 1, "evaluate_every": 1}
    first, both = (train(hyper(until=rounds, **own), dataset, clients, tests=TESTS) for rounds in (1, 2))
    algorithm = plugins.load("federated/algorithms", "hyperfl", hyper().algorithm.settings)
    net = plugins.load("models", "cnn-leaky").initialised(dataset.shape, 4, 5, torch.float64)
    images = dataset.normalised(dataset.test_images, torch.float64)[TESTS[0]]
    losses, server = [], {name: value[0] for name, value in first.weights.items()}
    for k in range(len(clients)):
        state = algorithm.network({**server, **{name: value[0, k] for name, value in first.clients.items()}})
        losses.append(float(F.cross_entropy(functional_call(net, state, (images,)), dataset.test_labels[TESTS[0]])))
    assert both.table["own_before_loss"].tolist()[-1] == pytest.approx(sum(losses) / len(losses), rel=1e-10)


@pytest.mark.parametrize("low_rank", [False, True])
def test_nothing_but_the_hypernetwork_leaves_the_client(hyper, dataset, clients, monkeypatch, low_rank):
    spec = hyper({"low_rank": low_rank}, rounds=1, clients_per_round=None)
    algorithm = plugins.load("federated/algorithms", "hyperfl", spec.algorithm.settings)
    sent = message(spec, dataset, clients, monkeypatch)
    assert sent
    for own, after in sent:
        assert set(own) == {name for name in after if is_hypernetwork(name)}
        for model in range(len(after["embedding"])):
            values = {name: value[model] for name, value in after.items()}
            private = {**algorithm.network(values), "embedding": values["embedding"]}
            for value in (value[model] for value in own.values()):
                assert not any(
                    value.shape == secret.shape and torch.equal(value, secret) for secret in private.values()
                )
        count = sum(value[0].numel() for value in own.values())
        generated = sum(after[HEADS + name + BIAS][0].numel() for name in generated_names(after))
        assert count == 10 * generated + 9 * (6 + 1)


def test_a_defense_sees_the_hypernetwork_only(hyper, dataset, clients, monkeypatch):
    seen = set()

    class Curious(Defense):
        def gradient(self, gradients, context):
            seen.update(gradients)
            return gradients

        def update(self, delta, context):
            seen.update(delta)
            return delta

    spec = hyper(rounds=1)
    message(spec, dataset, clients, monkeypatch, Curious())
    assert seen
    assert all(map(is_hypernetwork, seen))


class StoppedError(Exception):
    pass


def test_an_interrupted_training_ends_with_the_same_bytes(hyper, dataset, clients, tmp_path):
    """A checkpoint holds tensors in another order than the round that wrote it."""
    spec, path = hyper(rounds=4, dtype="float32"), tmp_path / "checkpoint.safetensors"

    def stopping(rounds, total, label):
        for index in rounds:
            if index == 2:
                raise StoppedError
            yield index

    with pytest.raises(StoppedError):
        train(spec, dataset, clients, tests=TESTS, checkpoint=path, checkpoint_seconds=0, track=stopping)
    resumed = train(spec, dataset, clients, tests=TESTS, checkpoint=path, checkpoint_seconds=3600)
    whole = train(spec, dataset, clients, tests=TESTS)
    assert resumed.client_steps < whole.client_steps
    assert_close(resumed.weights, whole.weights, rtol=0, atol=0)
    assert_close(resumed.clients, whole.clients, rtol=0, atol=0)
    assert resumed.table.equals(whole.table)


def test_what_cannot_work_is_refused_in_one_line(hyper, dataset, clients, monkeypatch):
    def run(spec, held=clients):
        train(spec, dataset, held, tests=TESTS)

    with pytest.raises(UserError, match="client 1 of the partition has no samples"):
        run(hyper(), [clients[0], clients[1][:0], clients[2]])
    with pytest.raises(UserError, match="evaluate: test tests a global network, but under algorithm 'hyperfl'"):
        run(hyper(evaluate=["test"]))
    with pytest.raises(UserError, match="the network has its classifier only"):
        run(hyper(model="logistic-regression"))
    with pytest.raises(UserError, match=r"plug-in 'hyperfl': hidden: .* greater than or equal to 1, not 0"):
        run(hyper({"hidden": 0}))
    monkeypatch.setattr(hypernetwork, "memory_bytes", lambda: 10**6)
    with pytest.raises(
        UserError, match=r"with 9 hidden units for this model has \d+,\d+ weights: 3 copies take .* GiB"
    ):
        run(hyper())


def test_heads_without_biases_keep_none_and_send_none(hyper, dataset, clients, monkeypatch):
    spec = hyper({"biases": False, "start": "weights"}, rounds=2, clients_per_round=None)
    sweep = train(spec, dataset, clients, tests=TESTS)
    biases = {name for name in sweep.weights if name.startswith(HEADS) and name.endswith(BIAS)}
    assert biases
    assert not any(sweep.weights[name].any() for name in biases)
    for own, after in message(spec, dataset, clients, monkeypatch):
        assert set(own) == {name for name in after if is_hypernetwork(name)} - biases
    with pytest.raises(UserError, match="without biases cannot begin with start: biases: set start: weights"):
        train(hyper({"biases": False}), dataset, clients, tests=TESTS)


def test_clients_with_heads_of_their_own_send_the_hidden_layer_alone(hyper, dataset, clients, monkeypatch):
    spec = hyper({"shared": "hidden-layer"}, rounds=2, clients_per_round=None)
    sweep = train(spec, dataset, clients, tests=TESTS)
    layer = {HIDDEN + WEIGHT, HIDDEN + BIAS}
    assert set(sweep.weights) == layer
    heads = [name for name in sweep.clients if name.startswith(HEADS)]
    assert heads
    for name in heads:
        assert not torch.equal(sweep.clients[name][0, 0], sweep.clients[name][0, 1])
    assert all(set(own) == layer for own, _ in message(spec, dataset, clients, monkeypatch))
