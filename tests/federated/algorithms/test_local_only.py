"""Local-only is a training per client; what clients keep survives interruption, divergence and rounds without them."""

import pytest
import torch
from torch.testing import assert_close

from leaklab.federated.batches import Visit
from leaklab.federated.checkpoint import resume
from leaklab.federated.client_work import ClientWork
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.records import plugins
from leaklab.records.errors import UserError

EXACT = {"rtol": 0, "atol": 1e-12}
TESTS = [torch.arange(0, 6), torch.arange(4, 12), torch.arange(12, 20)]


@pytest.fixture
def local(spec):
    def varied(**changes):
        changes = {"partition": {"name": "two-clients", "tests": 6}, "evaluate": ["own-test"]} | changes
        return type(spec).model_validate(spec.model_dump() | {"algorithm": "local-only"} | changes)

    return varied


def expected(sequential, spec, clients, replicate, rounds=None):
    """Return the networks of all clients of a replicate from loops over single modules."""
    oracle, settings = sequential(spec), len(spec.rates)
    seed, rates = spec.seeds[replicate // settings], spec.rates[replicate % settings]
    networks = [oracle.network(seed) for _ in clients]
    for index in range(spec.rounds if rounds is None else rounds):
        for k in sampled_clients(seed, index, len(clients), spec.clients_per_round):
            oracle.local(networks[k], Visit(seed, k, index, clients[k]), rates[k % len(rates)], None)
    return networks


@pytest.mark.parametrize(("model", "drawn"), [("mlp", None), ("mlp", 2), ("cnn-small", 2)])
def test_equals_as_many_trainings_as_there_are_clients(local, dataset, clients, sequential, model, drawn):
    spec = local(model=model, clients_per_round=drawn)
    sweep = train(spec, dataset, clients, tests=TESTS)
    assert sweep.weights == {}
    for index in range(4):
        for k, network in enumerate(expected(sequential, spec, clients, index)):
            assert_close({n: v[index, k] for n, v in sweep.clients.items()}, dict(network.state_dict()), **EXACT)


def test_every_client_is_tested_before_and_after_its_training_whether_it_takes_part_or_not(
    local, dataset, clients, sequential
):
    spec = local(clients_per_round=2)
    table = train(spec, dataset, clients, tests=TESTS).table
    images = dataset.normalised(dataset.test_images, torch.float64)

    def tested(networks):
        found = []
        for network, held in zip(networks, TESTS, strict=True):
            logits = network.eval()(images[held]).detach()
            right = (logits.argmax(1) == dataset.test_labels[held]).double().mean()
            found.append(
                (100 * float(right), float(torch.nn.functional.cross_entropy(logits, dataset.test_labels[held])))
            )
        return [sum(column) / len(found) for column in zip(*found, strict=True)]

    for index, last in ((0, 1), (3, 3)):
        row = table[(table["replicate"] == index) & (table["round"] == last)].iloc[0]
        networks = expected(sequential, spec, clients, index, rounds=last - 1)
        assert [row["own_before_accuracy"], row["own_before_loss"]] == pytest.approx(tested(networks))
        seed, rates = spec.seeds[index // 2], spec.rates[index % 2]
        for k, network in enumerate(networks):
            network.train()
            sequential(spec).local(network, Visit(seed, k, last - 1, clients[k]), rates[k % len(rates)], None)
        assert [row["own_after_accuracy"], row["own_after_loss"]] == pytest.approx(tested(networks))


@pytest.mark.parametrize("algorithm", ["scheme1", "local-only"])
def test_tests_of_clients_leave_no_trace_in_the_training(local, dataset, clients, algorithm):
    often = train(local(algorithm=algorithm, clients_per_round=2), dataset, clients, tests=TESTS)
    once = train(local(algorithm=algorithm, clients_per_round=2, evaluate_every=0), dataset, clients, tests=TESTS)
    for one, other in ((often.weights, once.weights), (often.clients, once.clients)):
        assert_close(one, other, rtol=0, atol=0)


def test_chunk_is_a_speed_knob_only(local, dataset, clients):
    spec = local(model="cnn-small", rounds=2, clients_per_round=2, rates=[[0.05], [0.1]], seeds=[5])
    one, five, all_ = (train(spec, dataset, clients, tests=TESTS, chunk=chunk) for chunk in (1, 5, 100))
    for other in (one, five):
        assert_close(other.clients, all_.clients, **EXACT)
        assert_close(
            torch.tensor(other.table.to_numpy(float)), torch.tensor(all_.table.to_numpy(float)), equal_nan=True
        )


class InterruptedTestError(Exception):
    pass


def stop_before(round_index):
    def track(rounds, total, label):
        for index in rounds:
            if index == round_index:
                raise InterruptedTestError
            yield index

    return track


def test_an_interrupted_sweep_ends_with_the_same_bytes(local, dataset, clients, tmp_path):
    spec = local(rounds=4, clients_per_round=2, dtype="float32")
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InterruptedTestError):
        train(spec, dataset, clients, tests=TESTS, checkpoint=path, checkpoint_seconds=0, track=stop_before(2))
    resumed = train(spec, dataset, clients, tests=TESTS, checkpoint=path, checkpoint_seconds=3600)
    whole = train(spec, dataset, clients, tests=TESTS)
    assert resumed.client_steps < whole.client_steps
    assert_close(resumed.clients, whole.clients, rtol=0, atol=0)
    assert resumed.table.equals(whole.table)
    assert resume(path, {}, torch.device("cpu")).clients.keys() == whole.clients.keys()


def test_a_frozen_replicate_keeps_its_clients_and_the_others_go_on(local, dataset, clients):
    # weights of a deep network soon multiply each other beyond all numbers at the highest rate that a spec may have
    deep = {"model": "cnn-small", "local_steps": 12, "rounds": 2}
    calm = train(local(rates=[[0.05]], **deep), dataset, clients, tests=TESTS)
    wild = train(local(rates=[[0.05], [1000.0]], **deep), dataset, clients, tests=TESTS)
    start = plugins.load("models", "cnn-small").initialised(dataset.shape, 4, 5, torch.float64).state_dict()
    for name, value in wild.clients.items():
        assert_close(value[0], calm.clients[name][0], **EXACT)
        for k in range(3):
            assert_close(value[1, k], start[name], rtol=0, atol=0)
    assert wild.table[wild.table["round"] == 2]["diverged"].tolist() == [False, True] * 2


def test_nothing_is_uploaded(local):
    algorithm = plugins.load("federated/algorithms", "local-only")
    defense, optimizer = plugins.load("defenses", "none"), plugins.load("federated/optimizers", "sgd")
    work = ClientWork(algorithm, None, defense, optimizer, 0.0, 1)
    values = {"fc.weight": torch.ones(2, 3)}
    assert work.message(values, values, []) == {}


def test_what_makes_no_sense_is_refused_in_one_line(local, dataset, clients):
    with pytest.raises(
        UserError, match="defense 'lrp' changes local_rate, for which algorithm 'local-only' has no use"
    ):
        train(local(defense="lrp"), dataset, clients, tests=TESTS)
    with pytest.raises(UserError, match=r"evaluate: test tests a global network, but under algorithm 'local-only'"):
        train(local(evaluate=["test"]), dataset, clients)
    with pytest.raises(UserError, match="own-test needs a test split for every client"):
        train(local(), dataset, clients, tests=TESTS[:2])
    with pytest.raises(UserError, match="the deal names test image 99, but stripes has 24"):
        train(local(), dataset, clients, tests=[*TESTS[:2], torch.tensor([99])])
    with pytest.raises(UserError, match="'local-only' has no setting 'scheme'"):
        train(local(algorithm={"name": "local-only", "scheme": 1}), dataset, clients, tests=TESTS)
    with pytest.raises(ValueError, match=r"set partition\.tests above 0"):
        local(partition="two-clients")


def test_a_training_of_no_round_tests_no_client_but_has_all_that_they_keep(local, dataset, clients):
    sweep = train(local(until=0), dataset, clients, tests=TESTS)
    assert sweep.clients
    assert all(value.shape[1] == len(clients) for value in sweep.clients.values())
    assert sweep.table["round"].tolist() == [0] * len(sweep.table)
    assert not any(column.startswith("own_") for column in sweep.table)
