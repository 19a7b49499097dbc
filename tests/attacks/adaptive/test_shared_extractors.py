"""Attacks on hypernetworks and on clients that keep their classifier, against captures by the algorithms."""

from collections import OrderedDict
from dataclasses import replace
from functools import partial
from math import sqrt

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.testing import assert_close

from leaklab.attacks.adaptive.hyperfl import cosine_through
from leaklab.attacks.base import Budget, Case, victim
from leaklab.attacks.ig import InvertingGradients
from leaklab.attacks.matching.gradients import trial_gradients
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.matching.steps import coefficients
from leaklab.attacks.private_parts import heads
from leaklab.attacks.private_parts.hypernetwork import extractor, hidden_units, message_of
from leaklab.attacks.run import attacked
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackerSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

EXACT = {"rtol": 1e-9, "atol": 1e-13}
CLIENTS_SEEN, SEED, RATE = (2, 0), 2, 0.05
HYPERFL = {"name": "hyperfl", "embedding": 5, "hidden": 16, "classifier_steps": 0}
MODEL = {"name": "cnn-leaky", "hidden": 24}
STREAMS = partial(stream, 0, "attack")


@pytest.fixture(scope="module")
def dataset(digits):
    """Digits of 16x16 pixels, which the convolutions of HyperFL fit into."""
    images = (digits[0] * 255).round().to(torch.uint8).repeat_interleave(2, 2).repeat_interleave(2, 3)
    mean, std = torch.tensor([0.3]), torch.tensor([0.4])
    return Dataset("digits", 10, images[:600], digits[1][:600], images[600:], digits[1][600:], mean, std)


@pytest.fixture(scope="module")
def deal():
    return [torch.arange(20 * client, 20 * client + 12) for client in range(3)]


@pytest.fixture(scope="module")
def caught(dataset, deal):
    """Make a capture at first weights, with the first state of server and clients."""

    def make(algorithm, **changes):
        fields = {
            "dataset": "digits", "partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"],
            "model": MODEL, "rates": [[RATE]], "rounds": 3, "local_steps": 1, "batch_size": 1, "seeds": [SEED],
            "dtype": "float64", "algorithm": algorithm, "until": 0,
        }  # fmt: skip
        mine = {key: changes.pop(key) for key in ("local_steps", "batch_size", "optimizer", "weight_decay")
                if key in changes}  # fmt: skip
        spec = TrainSpec.model_validate({**fields, **mine})
        done = train(spec, dataset, deal, tests=[torch.arange(4)] * 3)
        weights = {**done.weights, **{f"clients/{name}": value for name, value in done.clients.items()}}
        shared = ("dataset", "model", "algorithm", "local_steps", "batch_size", "dtype", "optimizer", "weight_decay")
        capture_of = CaptureSpec.model_validate({
            **{key: spec.model_dump()[key] for key in shared},
            "images": {"partition": spec.partition, "clients": CLIENTS_SEEN},
            "state": {"train": spec, "replicate": 0},
            "threat_model": "honest-but-curious-with-labels",
            "rate": RATE,
            **changes,
        })  # fmt: skip
        return capture(capture_of, dataset, deal, weights), done

    return make


def first_of(done, client):
    """Return the first state of the server, and of a client."""
    return {n: v[0] for n, v in done.weights.items()}, {n: v[0, client] for n, v in done.clients.items()}


def hidden_side(caught_now, row, dataset, deal, image=None):
    """Return the generated extractor, and autograd's gradient at it, with all that the client keeps."""
    (_, _, truth), done = caught_now
    server, kept = first_of(done, CLIENTS_SEEN[row])
    theta = Hypernetwork(5, 16)(server, kept.pop("embedding"))
    tracked = {name: value.clone().requires_grad_() for name, value in theta.items()}
    network = plugins.load("models", "cnn-leaky", {"hidden": 24}).build(dataset.shape, 10).double()
    places = torch.tensor(truth.trials[row]["image"]).view(-1)
    inputs = dataset.normalised(dataset.train_images[places], torch.float64)
    loss = F.cross_entropy(functional_call(network, {**tracked, **kept}, (inputs,)), dataset.train_labels[places])
    return theta, dict(zip(tracked, torch.autograd.grad(loss, list(tracked.values())), strict=True))


@pytest.mark.parametrize("start", ["biases", "weights", "pytorch"])
@pytest.mark.parametrize("batch", [1, 4])
def test_f7_the_heads_hold_the_hidden_gradient_and_the_hidden_weights(caught, dataset, deal, start, batch):
    """One plain step: to rounding, whatever the heads' start and the number of samples."""
    now = caught(HYPERFL | {"start": start, "bound": None}, batch_size=batch)
    observation, knowledge, _ = now[0]
    for row, one in enumerate(observation.one_by_one()):
        read = extractor(one, knowledge, "the test")
        places = now[0][2].trials[row]["image"]
        assert len(torch.tensor(places).view(-1)) == batch
        server, kept = first_of(now[1], CLIENTS_SEEN[row])
        theta = Hypernetwork(5, 16, start)(server, kept["embedding"])
        _, gradient = hidden_side(now, row, dataset, deal)
        assert set(read.update) == set(gradient)
        for name, value in gradient.items():
            assert_close(read.update[name][0], value, **EXACT)
            assert_close(read.weights[name], theta[name], **EXACT)


def test_a_bound_on_the_norm_is_a_factor_on_the_gradient_and_hides_no_weights(caught, dataset, deal):
    now = caught(HYPERFL | {"bound": 0.1})
    observation, knowledge, _ = now[0]
    theta, gradient = hidden_side(now, 0, dataset, deal)
    read = extractor(observation.one_by_one()[0], knowledge, "the test")
    factor = read.update["fc1.bias"].norm() / gradient["fc1.bias"].norm()
    assert factor < 0.5
    for name, value in gradient.items():
        assert_close(read.update[name][0], factor * value, **EXACT)
        assert_close(read.weights[name], theta[name], **EXACT)


@pytest.mark.parametrize(
    ("momentum", "decay", "kind"), [(0.5, 5e-4, "delta"), (0.0, 0.1, "gradient"), (0.9, 0.0, "delta")]
)
def test_several_steps_hold_the_weighted_mean_of_the_hidden_gradients(caught, dataset, deal, momentum, decay, kind):
    """Against a plain loop by torch.optim on the same batches; momentum and decay are undone."""
    steps = 5
    optimizer = {"name": "sgd", "momentum": momentum}
    settings = HYPERFL | {"bound": None}
    (observation, knowledge, _), done = caught(
        settings, local_steps=steps, batch_size=2, optimizer=optimizer, weight_decay=decay, kind=kind
    )
    network = plugins.load("models", "cnn-leaky", {"hidden": 24}).build(dataset.shape, 10).double()
    for row, client in enumerate(CLIENTS_SEEN):
        server, kept = first_of(done, client)
        moving = {name: torch.nn.Parameter(value.clone()) for name, value in server.items()}
        embedding = torch.nn.Parameter(kept.pop("embedding").clone())
        plain = torch.optim.SGD([*moving.values(), embedding], lr=RATE, momentum=momentum, weight_decay=decay)
        heard = []
        for places in Visit(SEED, client, 0, deal[client]).batch_indices(steps, 2):
            theta = Hypernetwork(5, 16)(moving, embedding)
            inputs = dataset.normalised(dataset.train_images[places], torch.float64)
            loss = F.cross_entropy(functional_call(network, {**theta, **kept}, (inputs,)), dataset.train_labels[places])
            heard.append(torch.autograd.grad(loss, list(theta.values()), retain_graph=True))
            plain.zero_grad()
            loss.backward()
            plain.step()
        _, weights = coefficients([RATE] * steps, momentum, decay)
        read = extractor(observation.one_by_one()[row], knowledge, "the test")
        for place, name in enumerate(theta):
            mean = sum(k * g[place] for k, g in zip(weights, heard, strict=True)) / sum(weights)
            assert_close(read.update[name][0], mean, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("transform", "algorithm"),
    [
        ("linear-heads", HYPERFL),
        ("private-classifier", {"name": "ppsgd"}),
        ("private-classifier", {"name": "pfedhn", "embedding": 5, "private_layer": "fc2"}),
    ],
)
def test_a_fitted_classifier_makes_the_true_image_the_one_that_matches_exactly(caught, transform, algorithm):
    """F1 without knowing the classifier: the gradient of the whole guess is the observed one at the private image."""
    (observation, knowledge, truth), _ = caught(algorithm)
    fitted = plugins.load("attacks/adaptive", transform)
    drawn = plugins.load("attacks/adaptive", transform, {"classifier": "drawn"})
    for row, one in enumerate(observation.one_by_one()):
        misses = []
        for plugin in (fitted, drawn):
            seen, _ = plugin.of_trial(one, knowledge)
            network = victim(seen, knowledge, "the test")
            target = F.one_hot(truth.labels[row : row + 1], 10).double()
            found = trial_gradients(network)(network, truth.images[row : row + 1], target)
            assert list(seen.update) == [name for name, _ in network.named_parameters()]
            assert [name for name in seen.weights if name not in seen.update] == ["fc2.weight", "fc2.bias"]
            wanted = list(seen.update.values())
            misses.append(sum(float((g - o).square().sum()) for g, o in zip(found, wanted, strict=True)))
            size = sum(float(o.square().sum()) for o in wanted)
        assert misses[0] < 1e-18 * size
        assert misses[1] > 1e-3 * size


@pytest.mark.parametrize("algorithm", [{"name": "ppsgd"}, {"name": "centaur", "classifier_steps": 0}])
def test_with_the_clients_classifier_the_loss_of_a_noised_extractor_is_half_its_entries(caught, algorithm):
    """The law of the noise, at the private image, is half a chi-squared variable; behind a drawn classifier it is not.

    A multiplier of 0.05 in place of the printed 10.62 lets the clip show: under the printed one no classifier matters.
    """
    noise = {"name": "dp-sgd", "settings": {"bound": 0.04, "sigma": 0.05}}
    (observation, knowledge, truth), done = caught(algorithm, defense=noise)
    transform = plugins.load("attacks/adaptive", "matched-dp-sgd-extractor")
    for row, one in enumerate(observation.one_by_one()):
        seen, distance = transform.of_trial(one, knowledge)
        own = first_of(done, CLIENTS_SEEN[row])[1]
        assert set(own) == {"fc2.weight", "fc2.bias"} == set(seen.weights) - set(seen.update)
        entries = sum(value[0].numel() for value in seen.update.values())
        misses = []
        for weights in ({**seen.weights, **own}, seen.weights):
            network = victim(replace(seen, weights=weights), knowledge, "the test")
            inversion = Inversion(network, list(seen.update.values()), (1, 1, 16, 16), 10, distance,
                                  truth.labels[row : row + 1])  # fmt: skip
            value, _ = inversion(truth.images[row].flatten()[None], torch.zeros(1, dtype=torch.int64))
            misses.append((float(value) - entries / 2) / sqrt(entries / 2))
        assert abs(misses[0]) < 4
        # two unit vectors over the deviation 0.05, squared and halved, in units of the law's own spread
        assert misses[1] > misses[0] + 100 / sqrt(entries / 2)


def test_a_noised_extractor_of_several_samples_is_refused(caught):
    noise = {"name": "dp-sgd", "settings": {"bound": 0.04, "sigma": 0.05}}
    (observation, knowledge, _), _ = caught({"name": "ppsgd"}, defense=noise, batch_size=2)
    transform = plugins.load("attacks/adaptive", "matched-dp-sgd-extractor")
    with pytest.raises(UserError, match="one clipped sample, not of the mean of 2") as caught_line:
        transform.of_trial(observation.one_by_one()[0], knowledge)
    assert "\n" not in str(caught_line.value)


def test_thecosine_through_the_heads_is_that_of_the_gradients_that_autograd_forms(caught, dataset, deal):
    now = caught(HYPERFL)
    observation, knowledge, _ = now[0]
    one = observation.one_by_one()[0]
    sent, gradient = message_of(one, knowledge, "the test")
    embedding = stream(3, "v").normal(5)
    dummy = {name: stream(4, name).normal(1, *shape).requires_grad_() for name, shape in sent.shapes.items()}
    formed = sent.gradient(embedding, torch.cat([value.flatten() for value in dummy.values()]))
    inner = sum((getattr(formed, part) * getattr(gradient, part)).sum() for part in ("a", "c", "w", "b"))
    cosine = inner / (formed.squared_norm() * gradient.squared_norm()).sqrt()
    derivative = torch.autograd.grad(1 - cosine, list(dummy.values()))
    wanted = sent.apart(sent.through(embedding, gradient) / gradient.squared_norm().sqrt())
    value, residuals, factor = cosine_through(sent, embedding)(
        [value.detach() for value in dummy.values()], [value[None] for value in wanted.values()]
    )
    assert_close(value[0], (1 - cosine).detach(), **EXACT)
    for own, expected in zip(residuals, derivative, strict=True):
        assert_close(factor[0] * own, expected, **EXACT)
    # with the client's embedding and gradient nothing is left (F1), and a gradient of zero has no direction
    theirs = first_of(now[1], CLIENTS_SEEN[0])[1]["embedding"]
    there = sent.apart(sent.through(theirs, gradient) / gradient.squared_norm().sqrt())
    true = [value[None] for value in sent.apart(gradient.c).values()]
    value, residuals, _ = cosine_through(sent, theirs)(true, [value[None] for value in there.values()])
    assert value.abs() < 1e-12
    assert max(float(part.abs().max()) for part in residuals) < 1e-8 / float(gradient.c.norm())
    nothing = cosine_through(sent, embedding)([torch.zeros_like(value) for value in true], true)
    assert (float(nothing[0]), float(nothing[2])) == (1.0, 0.0)


def test_the_two_level_attack_finds_the_gradient_where_its_lower_level_is_solved(caught, dataset, deal):
    now = caught(HYPERFL)
    observation, knowledge, _ = now[0]
    attack = plugins.load("attacks/adaptive", "two-level", {"iterations": 400})
    one = observation.one_by_one()[0]
    seen, distance = attack.of_trial(one, knowledge)
    _, gradient = hidden_side(now, 0, dataset, deal)
    found, hidden = (torch.cat([part[name].flatten() for name in gradient]) for part in (seen.update, gradient))
    assert distance is None
    assert F.cosine_similarity(found, hidden, dim=0) > 0.99
    short, _ = replace(attack, iterations=1).of_trial(one, knowledge)
    begun = torch.cat([short.update[name].flatten() for name in gradient])
    assert F.cosine_similarity(begun, hidden, dim=0) < 0.5


def test_ig_behind_the_heads_sees_what_ig_behind_a_drawn_embedding_does_not(caught):
    """F21 for the head attack: far better than the mean image, where the paper's attacker is not."""
    (observation, knowledge, truth), _ = caught(HYPERFL)
    errors = {}
    for name in ("linear-heads", "drawn-embedding"):
        spec = AttackerSpec.model_validate(
            {"attack": {"name": "ig", "total_variation": 1e-4}, "transform": name, "iterations": 300}
        )
        found = attacked(spec, observation, knowledge, "cpu", None)
        errors[name] = (found.images - truth.images).square().flatten(1).mean(1).mean()
    spread = truth.images.var()
    assert errors["linear-heads"] < spread / 4
    assert errors["drawn-embedding"] > 2 * errors["linear-heads"]


def test_what_attacks_lack_they_say_in_one_line(caught, knowledge, digits, observe):
    (hyper, told, _), _ = caught(HYPERFL, batch_size=2)
    (private, of_private, _), _ = caught({"name": "ppsgd"})
    (each, of_each, _), _ = caught({"name": "pfedhn", "embedding": 5})
    plain = observe(digits[0][:1, None], digits[1][:1, None])
    labelled = Knowledge("test", {**knowledge.facts, "labels": [[int(digits[1][0])]]})

    def attacked_by_ig(observation, facts):
        return InvertingGradients().reconstruct(Case(observation, facts, Budget(1, 1), STREAMS))

    heads, two_level = (plugins.load("attacks/adaptive", name) for name in ("linear-heads", "two-level"))
    still = replace(hyper, update={name: torch.zeros_like(value) for name, value in hyper.update.items()})
    of_one = {**told.facts, "batch_size": 1}
    unlabelled = Knowledge("test", {fact: value for fact, value in of_one.items() if fact != "labels"})
    one = hyper.one_by_one()[0]
    calls = {
        "choose transform linear-heads, two-level or drawn-embedding": lambda: attacked_by_ig(hyper, told),
        "'fc2.weight': choose transform private-classifier": lambda: attacked_by_ig(private, of_private),
        "each client weights of its own: attack one trial": lambda: attacked_by_ig(each, of_each),
        "attack a capture of algorithm hyperfl": lambda: heads.of_trial(plain.one_by_one()[0], labelled),
        "prepare one trial at a time": lambda: heads.prepare(hyper, told),
        "fitted to one sample, not to 2: set classifier: drawn": lambda: heads.of_trial(one, told),
        "'linear-heads': the update is zero": lambda: heads.of_trial(still.one_by_one()[0], told),
        "'two-level': the update is zero": lambda: two_level.of_trial(still.one_by_one()[0], told),
        "has no classifier 'guessed'": lambda: replace(heads, classifier="guessed").of_trial(one, told),
        "needs 'labels'": lambda: heads.of_trial(one, unlabelled),
    }
    for line, fails in calls.items():
        with pytest.raises(UserError, match=line) as caught_line:
            fails()
        assert "\n" not in str(caught_line.value)


@pytest.mark.parametrize(
    "layers",
    [
        {"conv": nn.Conv2d(1, 2, 3), "flatten": nn.Flatten(), "head": nn.Linear(8, 3)},
        {"fc": nn.Linear(4, 8, bias=False), "act": nn.ReLU(), "head": nn.Linear(8, 3)},
        {"head": nn.Linear(4, 3)},
        {"fc": nn.Linear(4, 8), "head": nn.Linear(8, 3), "last": nn.LogSoftmax(1)},
        {"fc": nn.Linear(4, 8), "act": nn.ReLU(), "other": nn.Linear(8, 3)},
    ],
    ids=["convolution", "no bias", "one layer", "not the end", "another is kept"],
)
def test_a_classifier_is_fitted_behind_two_affine_layers_only(layers):
    with pytest.raises(UserError, match="'the test' fits a classifier where two affine layers with biases end"):
        heads._ends(nn.Sequential(OrderedDict(layers)), ["head.weight", "head.bias"], "the test")


def test_hidden_units_are_the_quotient_of_every_row(caught):
    (observation, knowledge, _), _ = caught(HYPERFL)
    _, gradient = message_of(observation.one_by_one()[0], knowledge, "the test")
    units = hidden_units(gradient)
    rows = gradient.c.abs() > 1e-3 * gradient.c.abs().max()
    assert rows.sum() > 10
    assert_close(gradient.a[rows] / gradient.c[rows, None], units.expand(int(rows.sum()), -1), **EXACT)
