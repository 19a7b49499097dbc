"""Captures under algorithms with messages of their own: the shared names only, and what the server made for each."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F
from torch.testing import assert_close

from leaklab.attacks.run import attacked
from leaklab.captures import dealt_clients
from leaklab.captures.capture import capture
from leaklab.data.dataset import unit_range
from leaklab.federated.algorithms.hyperfl import HyperFL
from leaklab.federated.batches import Visit
from leaklab.federated.checkpoint import CLIENTS
from leaklab.federated.engine import train
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.observations.files import load_observation, save_observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.specs.attack import AttackerSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

EXACT = {"rtol": 1e-10, "atol": 1e-13}
CLIENTS_SEEN = (3, 1)
HYPERFL = {"name": "hyperfl", "embedding": 5, "hidden": 7, "classifier_steps": 0}
PFEDHN = {"name": "pfedhn", "embedding": 5, "hidden": 7}
TRAINING = {
    "dataset": "digits",
    "partition": {"name": "two-clients", "tests": 4},
    "evaluate": ["own-test"],
    "model": {"name": "mlp", "hidden": 6, "dropout": 0.0},
    "rates": [[0.05]],
    "rounds": 3,
    "local_steps": 1,
    "batch_size": 1,
    "seeds": [2],
    "dtype": "float64",
}


@pytest.fixture(scope="module")
def deal():
    return [torch.arange(20 * client, 20 * client + 12) for client in range(4)]


@pytest.fixture(scope="module")
def caught(dataset, deal):
    """Make a capture of two clients, with the weights of the state behind it."""

    def make(algorithm, until=0, training=None, **changes):
        fields = {**TRAINING, **(training or {}), "algorithm": algorithm}
        spec = TrainSpec.model_validate({**fields, "until": until})
        done = train(spec, dataset, deal, tests=[torch.arange(4)] * len(deal))
        weights = {**done.weights, **{CLIENTS + name: value for name, value in done.clients.items()}}
        wanted = ("dataset", "model", "algorithm", "local_steps", "batch_size", "dtype")
        shared = {key: spec.model_dump()[key] for key in wanted}
        images = {"partition": spec.partition, "clients": list(CLIENTS_SEEN)}
        state = {"train": spec, "replicate": 0}
        threat = {"threat_model": "honest-but-curious-with-labels", "rate": 0.05}
        capture_of = CaptureSpec.model_validate({**shared, **threat, "images": images, "state": state, **changes})
        return capture(capture_of, dataset, deal, weights), weights

    return make


def client_of(weights, client):
    """Return what the server holds and what a client keeps in a state, by name."""
    server = {name: value[0] for name, value in weights.items() if not name.startswith(CLIENTS)}
    kept = {name.removeprefix(CLIENTS): value[0, client] for name, value in weights.items() if name.startswith(CLIENTS)}
    return server, kept


def network():
    return plugins.load("models", "mlp", {"hidden": 6, "dropout": 0.0}).build((1, 8, 8), 10).double()


def batch_of(dataset, deal, client, round_index, step=0, steps=1):
    places = Visit(2, client, round_index, deal[client]).batch_indices(steps, 1)[step]
    return dataset.normalised(dataset.train_images[places], torch.float64), dataset.train_labels[places], places


@pytest.mark.parametrize("until", [0, 2])
def test_a_client_of_hyperfl_sends_its_hypernetworks_gradient_and_nothing_else(caught, dataset, deal, until):
    (observation, knowledge, truth), weights = caught(HYPERFL, until)
    named = [*observation.weights, *observation.update, *observation.buffers, *observation.own]
    assert named
    assert all(name.startswith("hypernetwork.") for name in named)
    assert "embedding" not in str(knowledge.facts["algorithm"].keys())
    for row, client in enumerate(CLIENTS_SEEN):
        server, kept = client_of(weights, client)
        tracked = {name: value.clone().requires_grad_() for name, value in server.items()}
        own = {name: value for name, value in kept.items() if name != "embedding"}
        generated = Hypernetwork(5, 7)(tracked, kept["embedding"])
        images, labels, places = batch_of(dataset, deal, client, until)
        loss = F.cross_entropy(functional_call(network(), {**generated, **own}, (images,)), labels)
        for (name, value), gradient in zip(
            tracked.items(), torch.autograd.grad(loss, list(tracked.values())), strict=True
        ):
            assert torch.equal(observation.weights[name], value)
            assert_close(observation.update[name][row], gradient, **EXACT)
        assert torch.equal(truth.images[row], unit_range(dataset.train_images[places], torch.float64))
        assert truth.labels[row].tolist() == labels.tolist() == knowledge.facts["labels"][row]


def test_the_classifiers_own_steps_are_no_private_images_of_the_update(caught, dataset, deal):
    """Their samples move what never leaves the client; the update speaks of those that come after."""
    settings = HYPERFL | {"classifier_steps": 3, "classifier_rate": 0.4}
    (observation, knowledge, truth), _ = caught(settings)
    (before, _, other), _ = caught(HYPERFL)
    assert truth.images.shape == other.images.shape == (2, 1, 1, 8, 8)
    for row, client in enumerate(CLIENTS_SEEN):
        _, labels, places = batch_of(dataset, deal, client, 0, step=3, steps=4)
        assert truth.trials[row]["image"] == int(places[0])
        assert knowledge.facts["labels"][row] == labels.tolist() == truth.labels[row].tolist()
    assert not torch.equal(truth.images, other.images)
    assert any(not torch.equal(observation.update[name], value) for name, value in before.update.items())


@pytest.mark.parametrize("private", ["", "fc2"])
def test_clients_of_pfedhn_send_the_change_of_weights_that_the_server_made_for_each(caught, dataset, deal, private):
    (observation, _, _), weights = caught(PFEDHN | {"private_layer": private}, 2)
    shared = [name for name, _ in network().named_parameters() if not private or not name.startswith("fc2")]
    assert not observation.weights
    assert not observation.buffers
    assert list(observation.own) == list(observation.update) == shared
    for row, client in enumerate(CLIENTS_SEEN):
        server, kept = client_of(weights, client)
        made = Hypernetwork(5, 7)(server, kept["embedding"])
        tracked = {name: value.clone().requires_grad_() for name, value in made.items()}
        own = {name: value for name, value in kept.items() if name != "embedding"}
        images, labels, _ = batch_of(dataset, deal, client, 2)
        loss = F.cross_entropy(functional_call(network(), {**tracked, **own}, (images,)), labels)
        for name, gradient in zip(tracked, torch.autograd.grad(loss, list(tracked.values())), strict=True):
            assert_close(observation.own[name][row], made[name], **EXACT)
            assert_close(observation.update[name][row], gradient, **EXACT)
    first, second = observation.one_by_one()
    assert torch.equal(second.weights["fc1.weight"], observation.own["fc1.weight"][1])
    assert (first.trials, second.trials) == ((0,), (1,))
    assert not torch.equal(first.weights["fc1.weight"], second.weights["fc1.weight"])


def test_an_observation_with_weights_of_each_comes_back_from_its_files(caught, tmp_path):
    (observation, knowledge, _), _ = caught(PFEDHN)
    files = tmp_path / "observation.safetensors", tmp_path / "facts.json"
    save_observation(*files, observation, knowledge)
    again, told = load_observation(*files)
    assert not again.weights
    assert told.facts == knowledge.facts
    for part in ("own", "update"):
        assert list(getattr(again, part)) == list(getattr(observation, part))
        for name, value in getattr(observation, part).items():
            assert torch.equal(getattr(again, part)[name], value)


def test_attacks_see_trials_with_weights_of_their_own_one_by_one(caught):
    (observation, knowledge, _), _ = caught(PFEDHN)
    spec = AttackerSpec.model_validate({"attack": "ig", "iterations": 6})
    both = attacked(spec, observation, knowledge, "cpu", None)
    alone = [attacked(spec, observation.select([row]), knowledge, "cpu", None) for row in range(2)]
    for row, one in enumerate(alone):
        assert torch.equal(both.images[row], one.images[0])
        assert torch.equal(both.candidate_losses[row], one.candidate_losses[0])
    assert [start.trial for start in both.starts] == [0, 1]


@dataclass(frozen=True)
class Tells(HyperFL):
    """A client that sends its embedding too."""

    def upload(self, before, after):
        return {name: after[name] for name in after if name.startswith(("hyper", "embedding"))}


def test_a_value_that_the_server_never_sent_is_no_update(caught, monkeypatch):
    real = plugins.load
    made = partial(Tells, embedding=5, hidden=7, classifier_steps=0, low_rank=False)

    def replaced(room, *rest):
        return made() if room == "federated/algorithms" else real(room, *rest)

    monkeypatch.setattr(dealt_clients.plugins, "load", replaced)
    with pytest.raises(UserError, match="clients send 'embedding', which the server does not send to them"):
        caught(HYPERFL)
