"""The engine is the plain sequential loop, only faster; chunks, divergence and interruptions change nothing."""

import logging

import pandas as pd
import pytest
import torch
from torch.testing import assert_close

from leaklab.federated import engine
from leaklab.federated.checkpoint import SERVER, below, discard
from leaklab.federated.engine import train
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_tensors
from leaklab.records.streams import stream

EXACT = {"rtol": 0, "atol": 1e-12}
MOMENTUM = {"name": "sgd", "momentum": 0.5}


def varied(spec, **changes):
    return type(spec).model_validate(spec.model_dump() | changes)


def replicate(sweep, index):
    return {name: value[index] for name, value in sweep.weights.items()}


def lrp_rates(visit, mean):
    """The uniform draws of LRP, written down independently of the defense."""
    name = ("client", visit.client, "round", visit.round, "draw", 0, "defense", "rate")
    draws = stream(visit.seed, *name)
    while True:
        yield 2 * mean * float(draws.uniform())


@pytest.mark.parametrize("algorithm", ["scheme1", "scheme2"])
@pytest.mark.parametrize("model", ["logistic-regression", "mlp", "cnn-small"])
@pytest.mark.parametrize("defense", ["none", "lrp"])
def test_equals_a_sequential_loop(spec, dataset, clients, sequential, model, algorithm, defense):
    spec = varied(spec, model=model, algorithm=algorithm, defense=defense, rounds=2)
    sweep = train(spec, dataset, clients)
    oracle = sequential(spec)
    for index, (seed, rates) in enumerate((s, r) for s in spec.seeds for r in spec.rates):
        expected = oracle.weights(seed, rates, lrp_rates if defense == "lrp" else None)
        assert_close(replicate(sweep, index), dict(expected), **EXACT)


def test_momentum_equals_torch_sgd_with_a_new_buffer_each_round(spec, dataset, clients, sequential):
    spec = varied(spec, optimizer=MOMENTUM)
    assert_close(replicate(train(spec, dataset, clients), 1), dict(sequential(spec).weights(5, spec.rates[1])), **EXACT)


def test_adam_equals_torch_adam_with_new_moments_each_round(spec, dataset, clients, sequential):
    spec = varied(spec, optimizer="adam", defense="lrp", rates=((0.01,), (0.002, 0.02, 0.005)))
    sweep, oracle = train(spec, dataset, clients), sequential(spec, torch.optim.Adam)
    for index, rates in enumerate(spec.rates):
        assert_close(replicate(sweep, index), dict(oracle.weights(5, rates, lrp_rates)), **EXACT)


@pytest.mark.parametrize("model", ["mlp", "cnn-small", "resnet-small"])
def test_chunk_is_a_speed_knob_only(spec, dataset, clients, model):
    spec = varied(spec, model=model, rates=((0.05,), (0.1,), (0.02,)), rounds=2, defense="lrp")
    one, seven, everything = (train(spec, dataset, clients, chunk=chunk) for chunk in (1, 7, 1000))
    for other in (one, seven):
        assert_close(other.weights, everything.weights, **EXACT)
        pd.testing.assert_frame_equal(other.table, everything.table, rtol=1e-10)


def test_float32_stays_close_to_float64(spec, dataset, clients):
    single = train(varied(spec, dtype="float32"), dataset, clients).weights
    double = train(spec, dataset, clients).weights
    for name, value in single.items():
        assert value.dtype == torch.float32
        assert_close(value.double(), double[name], rtol=0, atol=1e-5)


def test_rows_and_counted_steps(spec, dataset, clients):
    sweep = train(spec, dataset, clients)
    assert list(sweep.table.columns) == [
        *("replicate", "seed", "rate_0", "rate_1", "rate_2", "round"),
        *("test_accuracy", "test_loss", "diverged", "steps"),
    ]
    assert sweep.client_steps == 4 * 3 * 3 * 4  # replicates x clients x rounds x local steps
    last = sweep.table[sweep.table["round"] == 3]
    assert last["steps"].tolist() == [12] * 4
    assert last["seed"].tolist() == [5, 5, 6, 6]
    assert last["test_accuracy"].between(0, 100).all()


def test_training_learns(spec, dataset, clients):
    sweep = train(varied(spec, rounds=15, model="logistic-regression", evaluate_every=0), dataset, clients)
    assert sweep.table["round"].tolist() == [15] * 4  # 0: tested after the last round only
    assert sweep.table["test_accuracy"].min() > 80


def test_a_new_setting_changes_no_other_replicate(spec, dataset, clients):
    """Common random numbers: a replicate does not know which settings or seeds run beside it."""
    alone = train(varied(spec, rates=(spec.rates[1],), seeds=(6,), defense="lrp"), dataset, clients)
    together = train(varied(spec, defense="lrp"), dataset, clients)
    assert_close(replicate(alone, 0), replicate(together, 3), **EXACT)


def test_partial_participation_trains_only_the_sampled(spec, dataset, clients):
    sweep = train(varied(spec, clients_per_round=2), dataset, clients)
    assert sweep.client_steps == 4 * 2 * 3 * 4
    with pytest.raises(UserError, match="clients_per_round"):
        train(varied(spec, clients_per_round=4), dataset, clients)


def test_a_diverged_replicate_is_frozen_and_the_others_go_on(spec, dataset, clients):
    # weights of a deep network soon multiply each other beyond all numbers at the highest rate that a spec may have
    spec = varied(spec, model="cnn-small", local_steps=12)
    calm = train(spec, dataset, clients)
    wild = train(varied(spec, rates=(spec.rates[0], spec.rates[1], (1000.0,))), dataset, clients)
    for seed in (0, 1):
        for setting in (0, 1):
            assert_close(replicate(wild, 3 * seed + setting), replicate(calm, 2 * seed + setting), **EXACT)
        assert all(value.isfinite().all() for value in replicate(wild, 3 * seed + 2).values())
    final = wild.table[wild.table["round"] == 3]
    assert final["diverged"].tolist() == [False, False, True] * 2
    assert final["steps"].tolist() == [36, 36, 0] * 2
    assert wild.diverged == 2


class InterruptedTestError(Exception):
    pass


def stop_before(round_index):
    def track(rounds, total, label):
        for index in rounds:
            if index == round_index:
                raise InterruptedTestError
            yield index

    return track


def written(sweep, folder, name):
    write_tensors(folder / name, sweep.weights)
    return (folder / name).read_bytes(), sweep.table.to_csv(index=False)


DP_SGD = {"name": "dp-sgd", "sigma": 0.5, "bound": 1.0}
"""Its norm goes over all names: it rounds by their order."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("defense", ["lrp", DP_SGD], ids=["lrp", "dp-sgd"])
def test_an_interrupted_sweep_ends_with_the_same_bytes(spec, dataset, clients, tmp_path, dtype, defense):
    spec = varied(spec, rounds=5, optimizer=MOMENTUM, defense=defense, dtype=dtype)
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InterruptedTestError):
        train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0, track=stop_before(3))
    resumed = train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    assert resumed.client_steps == 4 * 3 * 2 * 4  # two rounds were left
    assert written(resumed, tmp_path, "a") == written(train(spec, dataset, clients), tmp_path, "b")


def test_a_foreign_or_damaged_checkpoint_is_not_used(spec, dataset, clients, tmp_path, caplog, changed):
    caplog.set_level(logging.WARNING)
    checkpoint = tmp_path / "checkpoint.safetensors"
    train(varied(spec, optimizer=MOMENTUM), dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    fresh = train(spec, dataset, clients)
    assert_close(train(spec, dataset, clients, checkpoint=checkpoint).weights, fresh.weights, rtol=0, atol=0)
    assert "belongs to another run (other spec)" in caplog.text
    assert checkpoint.name in caplog.text

    train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    train(spec, changed(dataset, mean=dataset.mean + 0.1), clients, checkpoint=checkpoint)
    assert "other data" in caplog.text

    checkpoint.write_bytes(checkpoint.read_bytes()[:200])
    assert_close(train(spec, dataset, clients, checkpoint=checkpoint).weights, fresh.weights, rtol=0, atol=0)
    assert "is damaged" in caplog.text


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(spec, dataset, clients, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    spec = varied(spec, rounds=5)
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InterruptedTestError):
        train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0, track=stop_before(4))
    content = bytearray(checkpoint.read_bytes())
    content[-5] ^= 1  # one bit of a weight: the file still parses
    checkpoint.write_bytes(content)
    resumed = train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=3600)
    assert f"{checkpoint} is damaged" in caplog.text
    assert "going on from round 3" in caplog.text
    assert not checkpoint.exists()  # the next save must not put it in the place of the sound one
    assert written(resumed, tmp_path, "a") == written(train(spec, dataset, clients), tmp_path, "b")


def test_nothing_is_left_of_a_finished_sweep(spec, dataset, clients, tmp_path):
    checkpoint = tmp_path / "checkpoint.safetensors"
    train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0)
    (tmp_path / ".checkpoint.new.safetensors.99.part.safetensors").write_bytes(b"half")
    (tmp_path / "checkpoint.new.safetensors").write_bytes(b"whole, but not renamed yet")
    assert len(list(tmp_path.iterdir())) == 4
    discard(checkpoint)
    assert not list(tmp_path.iterdir())


def test_a_goal_stops_each_replicate_on_its_own(spec, dataset, clients):
    free = train(varied(spec, rounds=12, evaluate=("train",), model="logistic-regression"), dataset, clients)
    value = float(free.table["train_accuracy"].quantile(0.6))
    goal = {"metric": "train_accuracy", "value": value}
    sweep = train(
        varied(spec, rounds=12, evaluate=("train",), model="logistic-regression", goal=goal), dataset, clients
    )
    assert sweep.table["reached"].any()
    for index, of_replicate in sweep.table.groupby("replicate"):
        unstopped = free.table[free.table["replicate"] == index].reset_index(drop=True)
        first = unstopped["train_accuracy"].ge(value).idxmax()
        expected = unstopped[: first + 1] if unstopped["train_accuracy"].ge(value).any() else unstopped
        assert of_replicate["train_accuracy"].tolist() == pytest.approx(expected["train_accuracy"].tolist())
        assert of_replicate["reached"].tolist() == [False] * (len(expected) - 1) + [
            bool(expected["train_accuracy"].iloc[-1] >= value)
        ]
        assert of_replicate["steps"].iloc[-1] == 4 * len(expected)


def test_a_goal_on_a_part_that_is_not_evaluated_is_refused(spec, dataset, clients):
    with pytest.raises(UserError, match="evaluate"):
        train(varied(spec, goal={"metric": "train_accuracy", "value": 50}), dataset, clients)


def test_the_training_part_is_what_the_clients_hold(spec, dataset, clients):
    sweep = train(varied(spec, evaluate=("test", "train"), rounds=1), dataset, clients)
    held = torch.cat(clients)
    network = plugins.load("models", "mlp").build(dataset.shape, 4).double()
    network.load_state_dict(replicate(sweep, 0))
    logits = network.eval()(dataset.normalised(dataset.train_images[held], torch.float64))
    loss = torch.nn.functional.cross_entropy(logits, dataset.train_labels[held]).detach()
    accuracy = (logits.argmax(1) == dataset.train_labels[held]).double().mean()
    row = sweep.table.iloc[0]
    assert row["train_loss"] == pytest.approx(float(loss))
    assert row["train_accuracy"] == pytest.approx(100 * float(accuracy))


def test_one_sweep_or_several_give_the_same(spec, dataset, clients):
    """A sweep may be split over processes in any way: nothing depends on what runs beside."""
    together = train(varied(spec, defense="lrp"), dataset, clients)
    for index, (seed, rates) in enumerate((s, r) for s in spec.seeds for r in spec.rates):
        alone = train(varied(spec, defense="lrp", seeds=(seed,), rates=(rates,)), dataset, clients)
        assert_close(replicate(alone, 0), replicate(together, index), **EXACT)


def test_running_statistics_are_averaged_like_weights(spec, dataset):
    """Two clients whose batch is all their data: scheme 2's statistics are the weighted mean of the single ones."""
    clients = [torch.arange(6), torch.arange(6, 15)]
    spec = varied(
        spec, model="resnet-small", rounds=1, local_steps=1, rates=((0.01,),), seeds=(5,), algorithm="scheme2"
    )
    together = train(spec, dataset, clients)
    alone = [train(spec, dataset, [client]) for client in clients]
    names = [name for name in together.weights if "running" in name]
    assert names
    for name in names:
        expected = (6 * alone[0].weights[name] + 9 * alone[1].weights[name]) / 15
        assert_close(together.weights[name], expected, **EXACT)


def test_the_checkpoint_waits_for_its_time(spec, dataset, clients, tmp_path):
    train(spec, dataset, clients, checkpoint=tmp_path / "c.safetensors", checkpoint_seconds=3600)
    assert not list(tmp_path.iterdir())


def test_clipped_clients_are_counted(spec, dataset, clients):
    assert train(varied(spec, defense="lrp"), dataset, clients).clipped_clients == 0
    steep = {"name": "lrp", "settings": {"class_slope": 0.0, "class_offset": -1.0}}
    assert train(varied(spec, defense=steep), dataset, clients).clipped_clients == 3


def test_global_random_state_is_untouched(spec, dataset, clients):
    before = torch.get_rng_state()
    train(spec, dataset, clients)
    assert torch.equal(before, torch.get_rng_state())


def test_wrong_inputs_are_refused_in_one_line(spec, dataset, clients):
    with pytest.raises(UserError, match="2 rates for 3 clients"):
        train(varied(spec, rates=((0.1, 0.1),)), dataset, clients)
    with pytest.raises(UserError, match=r"client 1 .* no samples"):
        train(spec, dataset, [clients[0], clients[1][:0]])


def test_a_defense_that_keeps_parameters_is_refused(spec, dataset, clients, monkeypatch):
    kept = frozenset({"fc2.weight", "fc2.bias"})
    _defend(monkeypatch, hidden=lambda self, network: kept)
    with pytest.raises(UserError, match=r"keeps fc2\.bias, fc2\.weight"):
        train(spec, dataset, clients)


def test_a_defense_that_changes_the_number_of_steps_is_refused(spec, dataset, clients, monkeypatch):
    _defend(monkeypatch, local_steps=lambda self, nominal, context: nominal + 1)
    with pytest.raises(UserError, match="changes local_steps, which a training sweep cannot do"):
        train(spec, dataset, clients)


def test_a_defense_may_look_into_the_network_of_its_own_client(spec, dataset, clients, monkeypatch):
    seen = []

    def gradient(self, gradients, context):
        state = context.network().state_dict()
        seen.append(all(torch.equal(state[name], value) for name, value in context.weights.items()))
        return gradients

    _defend(monkeypatch, gradient=gradient)
    train(varied(spec, rounds=1), dataset, clients)
    assert seen
    assert all(seen)


def until(spec, rounds):
    return type(spec).model_validate(spec.model_dump() | {"until": rounds})


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_training_that_stops_early_has_the_bytes_of_the_whole_one_in_that_round(
    spec, dataset, clients, tmp_path, schedule
):
    spec = varied(spec, rounds=4, optimizer=MOMENTUM, defense="lrp", schedule=schedule, clients_per_round=2)
    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(InterruptedTestError):
        train(spec, dataset, clients, checkpoint=checkpoint, checkpoint_seconds=0, track=stop_before(2))
    whole = below(SERVER, read_tensors(checkpoint))
    early = train(until(spec, 2), dataset, clients)
    assert_close(early.weights, whole, rtol=0, atol=0)
    first = train(spec, dataset, clients).table.query("round <= 2").reset_index(drop=True)
    pd.testing.assert_frame_equal(early.table, first, check_exact=True)


def test_until_0_is_the_untrained_network_and_its_test(spec, dataset, clients):
    sweep = train(until(spec, 0), dataset, clients)
    for index, seed in enumerate(seed for seed in spec.seeds for _ in spec.rates):
        network = plugins.load("models", "mlp").initialised(dataset.shape, 4, seed, torch.float64).eval()
        assert_close(replicate(sweep, index), dict(network.state_dict()), rtol=0, atol=0)
        right = network(dataset.normalised(dataset.test_images, torch.float64)).argmax(1) == dataset.test_labels
        assert sweep.table["test_accuracy"][index] == pytest.approx(100 * float(right.double().mean()))
    assert sweep.table["round"].tolist() == sweep.table["steps"].tolist() == [0] * 4
    assert sweep.client_steps == 0


def test_a_scheme_and_the_plug_in_it_is_short_for_are_the_same(spec, dataset, clients):
    short = train(varied(spec, algorithm="scheme2"), dataset, clients)
    long = train(varied(spec, algorithm={"name": "fedavg", "scheme": 2}), dataset, clients)
    assert_close(short.weights, long.weights, rtol=0, atol=0)


def _defend(monkeypatch, **hooks):
    kind, real = type("Made", (engine.Defense,), hooks), engine.plugins.load
    monkeypatch.setattr(engine.plugins, "load", lambda room, *a: kind() if room == "defenses" else real(room, *a))
