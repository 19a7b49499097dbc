"""DP-FedAvg, PPSGD and CENTAUR against loops over samples, modules and torch.optim in float64; budgets spent."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from leaklab.defenses.dp_sgd import epsilon_spent
from leaklab.federated.algorithms.fedavg import Centaur, Ppsgd
from leaklab.federated.batches import Visit, drawn_samples
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.models.normalisation import batch_norms
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

EXACT = {"rtol": 0, "atol": 1e-12}
TESTS = [torch.arange(0, 6), torch.arange(4, 12), torch.arange(12, 20)]
BOUND, SIGMA, HEAD_STEPS, HEAD_RATE = 0.3, 0.05, 3, 0.2
DP = {"name": "dp-sgd", "bound": BOUND, "sigma": SIGMA}
PRIVATE = {"partition": {"name": "two-clients", "tests": 6}, "evaluate": ["own-test"]}
METHODS = {
    "fedavg": {"algorithm": "scheme2", "evaluate": ["test"]},
    "ppsgd": {"algorithm": "ppsgd", **PRIVATE},
    "centaur": {
        "algorithm": {"name": "centaur", "classifier_steps": HEAD_STEPS, "classifier_rate": HEAD_RATE}, **PRIVATE
    },
}  # fmt: skip


@pytest.fixture
def own(spec):
    def varied(method, **changes):
        more = {
            "model": {"name": "cnn-small", "dropout": 0.0}, "defense": DP, "clients_per_round": 2, "rates": [[0.05]],
            "seeds": [5], "optimizer": {"name": "sgd", "momentum": 0.5},
        }  # fmt: skip
        return type(spec).model_validate(spec.model_dump() | more | METHODS[method] | changes)

    return varied


def is_head(name):
    return name.startswith("fc2.")


def clipped(network, images, labels, shared, size):
    """Return the clipped mean gradient from one backward pass for each sample; the others' plain mean."""
    total = {name: torch.zeros_like(value) for name, value in network.named_parameters()}
    for image, label in zip(images, labels, strict=True):
        network.zero_grad()
        F.cross_entropy(network(image[None]), label[None]).backward()
        norm = sum(p.grad.square().sum() for name, p in network.named_parameters() if shared(name)) ** 0.5
        for name, p in network.named_parameters():
            total[name] += p.grad * (min(1.0, BOUND / float(norm)) if shared(name) else 1.0) / size
    return total


def loop(spec, method, dataset, clients):
    """Return what server and clients hold at the end, by modules, single samples and torch.optim."""
    images, seed = dataset.normalised(dataset.train_images, torch.float64), spec.seeds[0]
    network = plugins.load("models", spec.model.name, spec.model.settings).initialised(
        dataset.shape, dataset.num_classes, seed, torch.float64
    )
    start = {name: value.detach().clone() for name, value in network.state_dict().items()}
    private = is_head if method != "fedavg" else lambda name: False
    server = {name: value for name, value in start.items() if not private(name)}
    heads = [{name: value for name, value in start.items() if private(name)} for _ in clients]
    phases = [(spec.local_steps, lambda name: True, spec.rates[0][0])]
    if method == "centaur":
        body = lambda name: not is_head(name)  # noqa: E731
        phases = [(HEAD_STEPS, is_head, HEAD_RATE), (spec.local_steps, body, spec.rates[0][0])]
    poisson = spec.defense.settings.get("sampling") == "poisson"
    for index in range(spec.rounds):
        chosen = sampled_clients(seed, index, len(clients), spec.clients_per_round)
        sizes = [len(clients[k]) for k in chosen]
        mean = {name: torch.zeros_like(value) for name, value in server.items()}
        for k, size in zip(chosen, sizes, strict=True):
            network.load_state_dict({**server, **heads[k]})
            visit, steps = Visit(seed, k, index, clients[k]), sum(count for count, _, _ in phases)
            batches = iter((drawn_samples if poisson else Visit.batch_indices)(visit, steps, spec.batch_size))
            draws = {
                name: stream(seed, "client", k, "round", index, "draw", 0, "defense", f"noise of {name}")
                for name in start
            }
            expected = min(spec.batch_size, len(clients[k]))
            for count, moves, rate in phases:
                moving = {name: p for name, p in network.named_parameters() if moves(name)}
                shared = [name for name in moving if not private(name)]
                optimizer = torch.optim.SGD(
                    moving.values(), lr=rate, momentum=0.5, weight_decay=spec.weight_decay
                )  # fmt: skip
                for _ in range(count):
                    batch = next(batches)
                    found = clipped(network, images[batch], dataset.train_labels[batch], shared.__contains__, expected)
                    for name, p in moving.items():
                        p.grad = found[name]
                        if name in shared:
                            p.grad = p.grad + SIGMA * BOUND / expected * draws[name].normal(*p.shape)
                    optimizer.step()
            after = network.state_dict()
            heads[k] = {name: after[name].clone() for name in heads[k]}
            for name in mean:
                mean[name] += size / sum(sizes) * after[name]
        server = mean
    return server, heads


@pytest.mark.parametrize("sampling", ["shuffled", "poisson"])
@pytest.mark.parametrize("method", METHODS)
def test_equals_a_loop_over_samples(own, dataset, clients, method, sampling):
    spec = own(method, rounds=2, defense={**DP, "sampling": sampling})
    tests = TESTS if "own-test" in spec.evaluate else []
    sweep = train(spec, dataset, clients, tests=tests)
    server, heads = loop(spec, method, dataset, clients)
    assert sweep.weights.keys() == server.keys()
    for name, value in server.items():
        assert_close(sweep.weights[name][0], value, **EXACT)
    for k, head in enumerate(heads):
        assert_close({name: value[0, k] for name, value in sweep.clients.items()}, head, **EXACT)
    one = train(spec, dataset, clients, tests=tests, chunk=1)
    assert_close((one.weights, one.clients), (sweep.weights, sweep.clients), **EXACT)


@pytest.mark.parametrize("algorithm", [Ppsgd(), Centaur()])
def test_nothing_but_the_extractor_is_uploaded_and_each_phase_moves_only_its_own(algorithm):
    network = plugins.load("models", "cnn-small").initialised((1, 16, 16), 4, 0).state_dict()
    head = {name for name in network if is_head(name)}
    server, kept = algorithm.server_start(network, None), algorithm.client_start(network, None)
    assert (server.keys(), kept.keys()) == (network.keys() - head, head)
    values = algorithm.receive(server, kept)
    assert values.keys() == network.keys()
    assert algorithm.upload(values, values).keys() == network.keys() - head
    moved = [{name for name in network if phase.moves(name)} for phase in algorithm.phases(7)]
    assert moved == ([head, network.keys() - head] if isinstance(algorithm, Centaur) else [network.keys()])


@pytest.mark.parametrize("method", METHODS)
def test_the_table_tells_what_the_client_that_spends_most_has_spent(own, dataset, clients, method):
    spec = own(method, rounds=3, defense={**DP, "sigma": 2.0, "delta": 1e-3})
    table = train(spec, dataset, clients, tests=TESTS).table
    for done in (1, 2, 3):
        often = [sum(k in sampled_clients(5, r, 3, 2) for r in range(done)) for k in range(3)]
        spent = max(
            epsilon_spent(2.0, min(1.0, 10 / len(held)), 4 * times, 1e-3)
            for held, times in zip(clients, often, strict=True)
        )
        assert table[table["round"] == done]["epsilon"].item() == spent


def test_a_defense_without_accountant_adds_no_column(own, dataset, clients):
    for defense in ("none", {**DP, "sigma": 0.0}):
        assert "epsilon" not in train(own("fedavg", rounds=1, defense=defense), dataset, clients).table


def test_a_budget_that_would_be_exceeded_is_refused_before_the_first_step(own, dataset, clients):
    spec = own("fedavg", clients_per_round=None, rounds=3, defense={**DP, "sigma": 20.0})
    spent = train(spec, dataset, clients).table["epsilon"].iloc[-1]
    asked = {"name": "dp-sgd", "bound": BOUND, "sigma": 20.0}
    kept = train(own("fedavg", clients_per_round=None, defense={**asked, "epsilon": spent * 1.001}), dataset, clients)
    assert kept.client_steps == 3 * 3 * 4
    started = []
    with pytest.raises(UserError, match=r"3 rounds spend epsilon [0-9.]+, more than the .* that was asked for"):
        train(
            own("fedavg", clients_per_round=None, defense={**asked, "epsilon": spent * 0.999}), dataset, clients,
            track=lambda rounds, *_: started.append(1) or rounds,
        )  # fmt: skip
    assert not started


def test_a_dropout_of_nothing_needs_no_masks(own, dataset, clients):
    spec = own("fedavg", model={"name": "mlp", "dropout": 0.0}, defense={**DP, "sampling": "poisson"})
    assert any(isinstance(layer, torch.nn.Dropout) for layer in plugins.load("models", "mlp").build((1, 16, 16), 4))
    assert train(spec, dataset, clients).client_steps > 0


def test_what_cannot_be_is_refused_in_one_line(own, dataset, clients):
    with pytest.raises(UserError, match=r"model 'resnet-small' samples mix \('.*running_mean'\): choose"):
        train(own("fedavg", model="resnet-small"), dataset, clients)
    with pytest.raises(UserError, match="no masks for layer 'dropout1': choose a model without dropout, or shuffled"):
        train(own("fedavg", model="cnn-small", defense={**DP, "sampling": "poisson"}), dataset, clients)
    with pytest.raises(UserError, match="the model has no layer 'fc9': choose from conv1"):
        train(own("ppsgd", algorithm={"name": "ppsgd", "private_layer": "fc9"}), dataset, clients, tests=TESTS)
    assert batch_norms(plugins.load("models", "resnet-small").build((1, 16, 16), 4))
