"""A capture from a training: what its clients send in a round is what the training averages."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.base import victim
from leaklab.captures.capture import capture, hold_images, sent_again
from leaklab.data.dataset import unit_range
from leaklab.federated.engine import train
from leaklab.federated.population import sampled_clients
from leaklab.models.lanes.library import library
from leaklab.models.published import with_published
from leaklab.observations.threat_models import FACTS, OWN
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

TRAINING = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 6},
    "model": {"name": "cnn-small", "dropout": 0.3},
    "defense": "lrp",
    "algorithm": "scheme1",
    "rates": [[0.02], [0.05]],
    "rounds": 4,
    "local_steps": 3,
    "batch_size": 4,
    "optimizer": {"name": "sgd", "momentum": 0.5},
    "weight_decay": 1e-3,
    "schedule": "cosine",
    "clients_per_round": 3,
    "seeds": [1, 2],
    "dtype": "float32",
}
SHARED = ("dataset", "model", "defense", "algorithm", "local_steps", "batch_size", "optimizer", "weight_decay",
          "schedule", "dtype")  # fmt: skip


def steady():
    """Tell whether a convolution of stacked clients gives one the same bytes whoever is trained beside it.

    oneDNN's do not on a processor that has AVX2 alone; clients of a network that is not stacked never meet.
    """
    images, kernels = torch.randn(4, 12, 16, 16), torch.randn(12 * 8, 1, 5, 5)
    alone = torch.nn.functional.conv2d(images[:, :3], kernels[:24], groups=3)
    return torch.equal(alone, torch.nn.functional.conv2d(images, kernels, groups=12)[:, :24])


def alike(value, other, spec):
    """Tell whether two tensors are equal to the byte; within rounding where stacked convolutions give no more."""
    rounded = spec.model.settings["dropout"] > 0 and not steady()
    return torch.equal(value, other) or (rounded and torch.allclose(value, other, rtol=1e-4, atol=1e-7))


@pytest.fixture(scope="module")
def deal():
    """Clients with 12, 20, ... samples: the schemes weigh them differently."""
    return [torch.arange(100 * client, 100 * client + 12 + 8 * client) for client in range(6)]


def capture_spec(training, state, clients, **changes):
    shared = {key: training.model_dump()[key] for key in SHARED}
    fields = {
        **shared,
        "mode": "train",
        "images": {"partition": training.partition, "clients": clients},
        "state": state,
        "rate": 0.05,
        "kind": "delta",
    }
    return CaptureSpec.model_validate({**fields, **changes})


def state_after(training, rounds, dataset, deal):
    return train(training.model_copy(update={"until": rounds}), dataset, deal).weights


def sent(spec, dataset, deal, weights):
    """Return the clients' messages, as a capture gets them."""
    held = hold_images(spec, dataset, deal, weights)
    return held.round(held.batches, held.contexts).weights


@pytest.fixture(scope="module", params=["scheme1", "scheme2", "scheme1, each by itself"])
def training(request, images_16):
    """A training whose clients are stacked, for their dropout; the last has none."""
    algorithm, _, alone = request.param.partition(", ")
    model = {**TRAINING["model"], "dropout": 0.0} if alone else TRAINING["model"]
    return TrainSpec.model_validate({**TRAINING, "algorithm": algorithm, "model": model})


@pytest.fixture(scope="module")
def images_16(dataset):
    """Digits of 16x16 pixels, which two convolutions of 5x5 fit into."""
    grow = {name: getattr(dataset, name).repeat_interleave(2, 2).repeat_interleave(2, 3)
            for name in ("train_images", "test_images")}  # fmt: skip
    return replace(dataset, **grow)


def test_the_mean_of_all_captured_clients_is_the_next_state_to_the_byte(training, images_16, deal):
    before, after = (state_after(training, rounds, images_16, deal) for rounds in (2, 3))
    replicate, seed = 3, 2  # the second seed at the second rate
    clients = sampled_clients(seed, 2, len(deal), training.clients_per_round)
    assert clients != [0, 1, 2]
    state = {"train": training.model_copy(update={"until": 2}), "replicate": replicate}
    messages = sent(capture_spec(training, state, clients), images_16, deal, before)
    sizes = [len(deal[client]) for client in clients]
    shares = [1 / 3] * 3 if training.algorithm == "scheme1" else [size / sum(sizes) for size in sizes]
    for name, value in messages.items():
        mean = torch.zeros_like(value[0])
        for row, share in zip(value, shares, strict=True):
            mean.add_(row, alpha=share)
        assert alike(mean, after[name][replicate], training), name
        assert not torch.equal(mean, before[name][replicate]), name


def test_what_was_kept_while_it_was_sent_is_what_the_state_gives_to_the_byte(training, images_16, deal):
    replicate, seed = 3, 2
    clients = sampled_clients(seed, 2, len(deal), training.clients_per_round)
    before = training.model_copy(update={"until": 2})
    spec = capture_spec(training, {"train": before, "replicate": replicate}, clients, sent=True)
    assert spec.sending == training.model_copy(update={"until": 3, "sends": tuple(clients)})
    assert spec.needs()[1:] == (before, spec.sending)
    weights = train(before, images_16, deal).weights
    left = train(spec.sending, images_16, deal).left()
    kept = capture(spec, images_16, deal, weights, sent=left)
    stacked = training.model.settings["dropout"] > 0 and library() is None
    assert sent_again(spec, kept[0].update, images_16, deal, weights) or (stacked and not steady())
    again = capture(spec.model_copy(update={"sent": False}), images_16, deal, weights)
    assert all(alike(value, again[0].update[name], training) for name, value in kept[0].update.items())
    assert torch.equal(kept[2].images, again[2].images)
    assert torch.equal(kept[2].rates, again[2].rates)
    assert kept[1] == again[1]
    # stacked models that train alone round otherwise, which is no reason to refuse what was sent
    alone = train(spec.sending, images_16, deal, chunk=1).left()
    rounded = capture(spec, images_16, deal, weights, sent=alone)[0].update
    assert sent_again(spec, rounded, images_16, deal, weights) == (not stacked)


def test_messages_of_another_round_are_refused(training, images_16, deal):
    clients = sampled_clients(1, 2, len(deal), training.clients_per_round)
    before = training.model_copy(update={"until": 2})
    spec = capture_spec(training, {"train": before, "replicate": 1}, clients, sent=True)
    weights = train(before, images_16, deal).weights
    left = train(spec.sending, images_16, deal).left()
    left["sent/fc1.weight"] = left["sent/fc1.weight"] * 1.01
    kept = capture(spec, images_16, deal, weights, sent=left)
    with pytest.raises(UserError, match="sent another update than their state gives: delete that folder"):
        sent_again(spec, kept[0].update, images_16, deal, weights)
    with pytest.raises(UserError, match="does not hold what these clients send"):
        capture(spec, images_16, deal, weights, sent={**left, "sent/fc1.weight": left["sent/fc1.weight"][..., :2]})
    with pytest.raises(UserError, match="does not hold what these clients send"):
        capture(spec, images_16, deal, weights, sent=weights)


def test_who_was_not_drawn_sent_nothing(training, images_16, deal):
    drawn = sampled_clients(1, 2, len(deal), training.clients_per_round)
    other = next(client for client in range(len(deal)) if client not in drawn)
    before = training.model_copy(update={"until": 2})
    spec = capture_spec(training, {"train": before, "replicate": 1}, [drawn[0], other], sent=True)
    weights, left = train(before, images_16, deal).weights, train(spec.sending, images_16, deal).left()
    with pytest.raises(UserError, match=f"client {other} was not drawn in round 3 of the training with seed 1"):
        capture(spec, images_16, deal, weights, sent=left)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"defense": "none"}, "and 'defense' is another"),
        ({"rate": 0.02}, "and 'rate' is another"),
        ({"mode": "eval"}, "and 'mode' is another"),
        ({"local_steps": 1}, "and 'local_steps' is another"),
        ({"draws": 2}, "sent once: leave draws"),
        ({"images": {"count": 2}, "algorithm": "scheme1"}, "name state and images.clients"),
    ],
)
def test_what_was_sent_is_of_the_training_as_it_was(changes, message):
    training = TrainSpec.model_validate(TRAINING)
    state = {"train": training.model_copy(update={"until": 2}), "replicate": 1}
    with pytest.raises(ValueError, match=message):
        capture_spec(training, state, [0], sent=True, **changes)
    with pytest.raises(ValueError, match="nobody sends after the last round, 4"):
        capture_spec(training, {"train": training, "replicate": 1}, [0], sent=True)


def test_the_observation_is_what_the_clients_sent_less_what_they_got(training, images_16, deal):
    state = {"train": training.model_copy(update={"until": 0}), "replicate": 1}
    weights = state_after(training, 0, images_16, deal)
    spec = capture_spec(training, state, [4, 1], draws=2)
    observation, knowledge, truth = capture(spec, images_16, deal, weights)
    messages = sent(spec, images_16, deal, weights)
    for name, value in observation.update.items():
        assert torch.equal(observation.weights[name], weights[name][1])
        assert torch.equal(value, messages[name] - weights[name][1])
    assert [(trial["client"], trial["draw"]) for trial in truth.trials] == [(4, 0), (4, 1), (1, 0), (1, 1)]
    assert truth.images.shape == (4, 12, 1, 16, 16)
    for trial, images, labels in zip(truth.trials, truth.images, truth.labels, strict=True):
        assert torch.equal(images, unit_range(images_16.train_images[trial["image"]]))
        assert torch.equal(labels, images_16.train_labels[trial["image"]])
        assert set(trial["image"]) <= set(deal[trial["client"]].tolist())
    assert not torch.equal(truth.rates[0], truth.rates[1])
    assert knowledge.facts["nominal_rate"] == 0.05
    assert knowledge.facts["optimizer"] == {"name": "sgd", "settings": {"momentum": 0.5}}
    assert knowledge.facts["weight_decay"] == 1e-3
    assert set(knowledge.facts) == set(FACTS) - OWN - {"labels", "rounds", "server", "queries"}


def test_a_state_of_one_defense_is_captured_under_another(images_16, deal):
    training = TrainSpec.model_validate(TRAINING)
    state = {"train": training.model_copy(update={"until": 1}), "replicate": 0}
    weights = state_after(training, 1, images_16, deal)
    (perturbed, plain) = (
        capture(capture_spec(training, state, [0], defense=name), images_16, deal, weights) for name in ("lrp", "none")
    )
    assert perturbed[1].facts["defense"]["name"] == "lrp"
    for name, value in perturbed[0].weights.items():
        assert torch.equal(value, plain[0].weights[name])
    assert torch.equal(perturbed[2].images, plain[2].images)
    factor = training.rates[1][0] * 0.5 * (1 + torch.tensor(torch.pi / 4).cos()) * 12 * 6 / sum(map(len, deal))
    assert torch.allclose(plain[2].rates, factor.double().expand(1, 3), rtol=1e-6)
    assert not torch.allclose(perturbed[2].rates, plain[2].rates, rtol=1e-2)


class KilledError(Exception):
    """What ends a training in the middle of its rounds."""


def test_a_training_that_was_killed_resumes_and_its_capture_is_the_same(images_16, deal, tmp_path):
    training = TrainSpec.model_validate({**TRAINING, "until": 3})

    def killing(rounds, total, label):
        for index in rounds:
            if index == 2:
                raise KilledError
            yield index

    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KilledError):
        train(training, images_16, deal, checkpoint=checkpoint, checkpoint_seconds=0, track=killing)
    assert checkpoint.exists()
    resumed = train(training, images_16, deal, checkpoint=checkpoint).weights
    whole = train(training, images_16, deal).weights
    spec = capture_spec(training, {"train": training, "replicate": 2}, [0, 5])
    first, second = (capture(spec, images_16, deal, weights) for weights in (whole, resumed))
    for part in ("weights", "update"):
        for name, value in getattr(first[0], part).items():
            assert torch.equal(value, getattr(second[0], part)[name]), name
    assert first[1] == second[1]


def one_step(**changes):
    fields = {"model": "dlg-lenet", "defense": "none", "local_steps": 1, "batch_size": 2, "weight_decay": 0.0}
    return TrainSpec.model_validate({**TRAINING, **fields, "optimizer": "sgd", "dtype": "float64", **changes})


def test_an_attacker_sees_the_network_on_images_of_the_unit_range(dataset, deal):
    training = one_step()
    weights = state_after(training, 1, dataset, deal)
    state = {"train": training.model_copy(update={"until": 1})}
    spec = capture_spec(training, state, [2, 3], kind="gradient", algorithm="scheme2", rate=0.02)
    observation, knowledge, truth = capture(spec, dataset, deal, weights)
    network = victim(observation, knowledge, "a test")
    assert [name for name, _ in network.named_parameters()] == list(observation.weights)
    network.requires_grad_()
    for trial in range(2):
        loss = torch.nn.functional.cross_entropy(network(truth.images[trial]), truth.labels[trial])
        for name, value in zip(observation.update, torch.autograd.grad(loss, list(network.parameters())), strict=True):
            assert torch.allclose(observation.update[name][trial], value, rtol=1e-6, atol=1e-9), name


def test_drawn_images_start_from_a_state_too(dataset, deal):
    training = one_step()
    weights = state_after(training, 1, dataset, deal)
    state = {"train": training.model_copy(update={"until": 1})}
    spec = capture_spec(training, state, [0], images={"count": 2}, batch_size=1, algorithm="scheme1", mode="eval")
    observation, _, truth = capture(spec, dataset, (), weights)
    assert torch.equal(observation.weights["fc.weight"], weights["fc.weight"][0])
    assert torch.equal(truth.images[0, 0], unit_range(dataset.test_images[truth.trials[0]["image"]], torch.float64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {"partition": "iid", "clients": [6]}}, "deals to 6 clients, numbers 0 to 5: there is no client 6"),
        ({"defense": {"name": "additive-noise", "sigma": 0.1}, "batch_size": 14}, "client 0 of partition .* has 12"),
        ({"defense": "hide-classifier"}, "no training does: capture it on drawn images"),
        ({"model": {"name": "dlg-lenet", "n_conv": 3}}, "take the same model"),
        ({"input_range": [-1, 1]}, "leave input_range out"),
        ({"client_weight": 2.0}, "leave client_weight out"),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_line(dataset, deal, changes, message):
    training = one_step()
    weights = state_after(training, 1, dataset, deal)
    state = {"train": training.model_copy(update={"until": 1})}
    with pytest.raises((UserError, ValueError), match=message):
        capture(capture_spec(training, state, [0, 1], **changes), dataset, deal, weights)


def test_a_client_without_samples_is_refused(dataset, deal):
    training = one_step()
    weights = state_after(training, 0, dataset, deal)
    state = {"train": training.model_copy(update={"until": 0})}
    with pytest.raises(UserError, match="has 0 samples, too few for batches of 2"):
        capture(capture_spec(training, state, [0, 1]), dataset, [deal[0], deal[1][:0]], weights)


def test_a_state_of_another_architecture_is_refused_by_name_and_shape(dataset, images_16, deal):
    training = one_step()
    weights = state_after(training, 0, dataset, deal)
    state = {"train": training.model_copy(update={"until": 0})}
    with pytest.raises(
        UserError, match=r"weights.safetensors holds .* 'fc.weight' is 10x48, not 10x192: take the state"
    ):
        capture(capture_spec(training, state, [0]), images_16, deal, weights)
    del weights["conv2.bias"]
    with pytest.raises(UserError, match=r"'conv2.bias' is absent, not 12"):
        capture(capture_spec(training, state, [0]), dataset, deal, weights)


def test_a_schedule_that_has_ended_is_refused(dataset, deal):
    training = one_step()
    weights = state_after(training, 4, dataset, deal)
    with pytest.raises(UserError, match="schedule 'cosine' ends with round 4"):
        capture(capture_spec(training, {"train": training}, [0]), dataset, deal, weights)


def test_an_algorithm_that_sends_nothing_leaks_nothing_and_says_so(dataset, deal):
    partition = {"name": "iid", "clients": 6, "tests": 5}
    training = one_step(algorithm={"name": "local-only"}, partition=partition, evaluate=["own-test"], until=1)
    sweep = train(training, dataset, deal, tests=[torch.arange(5) + 5 * k for k in range(6)])
    saved = {**sweep.weights, **{f"clients/{name}": value for name, value in sweep.clients.items()}}
    with pytest.raises(UserError, match="algorithm 'local-only' sends nothing"):
        capture(capture_spec(training, {"train": training}, [0]), dataset, deal, saved)


def test_published_weights_are_loaded_strictly(tmp_path):
    network = torch.nn.Sequential()
    network.add_module("fc", torch.nn.Linear(2, 3))
    wanted = {"module.linear.weight": torch.ones(3, 2), "module.linear.bias": torch.zeros(3)}
    torch.save({"state_dict": wanted}, tmp_path / "net.th")
    found = with_published(network, tmp_path / "net.th", {"module.": "", "linear.": "fc."})
    assert torch.equal(found.fc.weight, torch.ones(3, 2))
    torch.save({"state_dict": wanted | {"module.more": torch.ones(1)}}, tmp_path / "net.th")
    with pytest.raises(UserError, match=r"net.th does not fit the network .*more"):
        with_published(network, tmp_path / "net.th", {"module.": "", "linear.": "fc."})
