"""Fishing: the answer of a whole batch is the answer of one of its samples."""

from copy import deepcopy
from itertools import combinations
from math import prod

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.captures.capture import capture
from leaklab.models.affine import LogisticRegression
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec


@pytest.fixture(scope="module")
def batches(dataset):
    """Positions with exactly one sample, and with two samples, of class 3 among 16."""
    labels = dataset.test_labels
    own, others = (labels == 3).nonzero().flatten().tolist(), (labels != 3).nonzero().flatten().tolist()
    return {1: tuple(others[:15] + own[:1]), 2: tuple(others[:14] + own[:2])}


def spec(indexes, server, **changes):
    return CaptureSpec.model_validate(
        {
            "dataset": "digits",
            "images": {"count": len(indexes), "indexes": indexes},
            "batch_size": len(indexes),
            "model": "dlg-lenet",
            "rate": 0.05,
            "threat_model": "malicious-server",
            "server": None if server is None else {"name": "fishing", "target": 3, **server},
            **changes,
        }
    )


def alone(observation, truth, trial=0):
    """The gradient of the truth's one sample at the weights of the observation, by name."""
    model = plugins.load("models", observation.model["name"], observation.model["settings"])
    network = model.build(truth.images.shape[2:], 10).double()
    network.load_state_dict({**observation.weights, **observation.buffers})
    loss = F.cross_entropy(network.eval()(truth.images[trial]), truth.labels[trial])
    return dict(zip(observation.weights, torch.autograd.grad(loss, list(network.parameters())), strict=True))


def same(update, expected, trial=0, scale=1.0):
    for name, value in expected.items():
        largest = value.abs().max()
        assert torch.allclose(update[name][trial], scale * value, rtol=0, atol=float(1e-9 * largest)), name


@pytest.mark.parametrize("model", ["dlg-lenet", "resnet-small"])
def test_class_fishing_turns_a_batch_into_one_sample(dataset, batches, model):
    observation, knowledge, truth = capture(spec(batches[1], {}, model=model), dataset)
    assert truth.trials[0]["image"] == batches[1][-1]
    assert truth.labels.tolist() == [[3]]
    same(observation.update, alone(observation, truth))
    assert knowledge.facts["batch_size"] == 1
    assert knowledge.facts["queries"] == 1


def test_without_the_change_the_update_is_that_of_the_batch(dataset, batches):
    plain = capture(spec(batches[1], None), dataset)
    left = capture(spec(batches[1], {"strategy": "none"}), dataset)
    for name, value in plain[0].update.items():
        assert torch.equal(left[0].update[name], value)
        assert torch.equal(left[0].weights[name], plain[0].weights[name])
    assert left[2].labels.tolist() == [[3]]


def test_class_fishing_mixes_two_samples_of_the_class(dataset, batches):
    observation, _, truth = capture(spec(batches[2], {}), dataset)
    with pytest.raises(AssertionError):
        same(observation.update, alone(observation, truth))


class TestAClientInTrainingState:
    """Batch statistics mix the samples: what the head is given depends on all of them, and so do its derivatives."""

    def test_the_batch_shows_in_what_one_sample_answers(self, dataset, batches):
        observation, _, truth = capture(spec(batches[1], {}, model="resnet-small", mode="train"), dataset)
        with pytest.raises(AssertionError):
            same(observation.update, alone(observation, truth))

    def test_without_batch_normalisation_it_is_no_other_client(self, dataset, batches):
        trained, evaluated = (capture(spec(batches[1], {}, mode=mode), dataset)[0] for mode in ("train", "eval"))
        assert all(torch.equal(value, evaluated.update[name]) for name, value in trained.update.items())

    def test_the_sample_with_the_smallest_feature_is_the_one_as_the_client_computes_them(self, dataset):
        network = plugins.load("models", "resnet-small").initialised((1, 8, 8), 10, 0, torch.float64)
        own, others = ((dataset.test_labels == 3) == wanted for wanted in (True, False))
        fellows = others.nonzero().flatten().tolist()[:14]
        images = dataset.test_images.double() / 255

        def features(pair, state):
            layers = deepcopy(network[:-1])  # whose running statistics would move
            return layers.train(state)(images[[*fellows, *pair]])[-2:].detach()

        pairs = combinations(own.nonzero().flatten().tolist(), 2)
        pair, feature = next(
            (pair, int(other.nonzero()[0]))
            for pair in pairs
            if (other := features(pair, True).argmin(0) != features(pair, False).argmin(0)).any()
        )
        for mode in ("train", "eval"):
            place = int(features(pair, mode == "train")[:, feature].argmin())
            asked = spec((*fellows, *pair), {"feature": feature}, model="resnet-small", mode=mode)
            assert capture(asked, dataset)[2].trials[0]["image"] == pair[place], mode


@pytest.fixture(scope="module")
def separable(dataset):
    """A feature of the honest network, and a batch whose two samples of class 3 have the most of it.

    Returns:
        Positions, settings of the server, and the distance between the two.
    """
    network = plugins.load("models", "resnet-small").initialised((1, 8, 8), 10, 0, torch.float64)
    values = network[:-1].eval()(dataset.test_images.double() / 255).detach()
    own, others = (dataset.test_labels == 3).nonzero().flatten(), (dataset.test_labels != 3).nonzero().flatten()
    feature = int((values[own].amax(0) - values[own].median(0).values).argmax())
    ranked = own[values[own, feature].argsort()]
    low, high = int(ranked[-len(ranked) // 2]), int(ranked[-1])
    chosen = others[values[others, feature].argsort()][:14].tolist()
    margin = float(values[high, feature] - values[low, feature])
    assert float(values[chosen, feature].max()) < float(values[low, feature]) - margin / 5
    # what is left of the others is exp(-m margin / 2)
    sharp = {"feature": feature, "feature_multiplier": 400 / margin, "tolerance": margin / 10}
    return (*chosen, low, high), {"strategy": "feature", **sharp}


def test_feature_fishing_separates_two_samples_of_the_class(dataset, separable):
    batch, server = separable
    observation, knowledge, truth = capture(spec(batch, server, model="resnet-small"), dataset)
    assert truth.trials[0]["image"] == batch[-2]
    same(observation.update, alone(observation, truth))
    assert knowledge.facts["queries"] == 3


def test_a_hidden_rate_changes_no_ratio_and_no_query(dataset, separable):
    batch, server = separable
    plain, lrp = (
        capture(spec(batch, server, model="resnet-small", defense=defense), dataset) for defense in ("none", "lrp")
    )
    assert lrp[1].facts["queries"] == plain[1].facts["queries"]
    # each query has a rate of its own; that of the update that is kept is a factor on it
    head = list(plain[0].update)[-1]
    scale = float(lrp[0].update[head][0, 3] / plain[0].update[head][0, 3])
    assert abs(scale - 1) > 1e-3
    same(lrp[0].update, {name: value[0] for name, value in plain[0].update.items()}, scale=scale)


def test_a_delta_is_fished_like_a_gradient(dataset, batches):
    gradient, delta = (capture(spec(batches[1], {}, kind=kind), dataset)[0] for kind in ("gradient", "delta"))
    same(delta.update, {name: value[0] for name, value in gradient.update.items()}, scale=-0.05)


def test_a_search_that_samples_of_other_classes_spoil_ends_in_its_circle(dataset, separable):
    batch, server = separable
    others = (dataset.test_labels != 3).nonzero().flatten().tolist()
    # more of the feature than the two samples of the class have
    spoiled = (*others[:14], *batch[-2:])
    knowledge = capture(spec(spoiled, server, model="resnet-small"), dataset)[1]
    assert 3 <= knowledge.facts["queries"] <= 10


def test_noise_keeps_the_search_going(dataset, separable):
    batch, server = separable
    noise = {"name": "additive-noise", "sigma": 0.1}
    noisy = spec(batch, {**server, "most_queries": 40}, model="resnet-small", defense=noise)
    assert 10 < capture(noisy, dataset)[1].facts["queries"] <= 40


@pytest.mark.parametrize(
    ("server", "changes", "message"),
    [
        ({"target": 10}, {}, "features and 10 classes"),
        ({"feature": 5000}, {}, "features and 10 classes"),
        ({}, {"defense": "hide-classifier"}, "keeps its last layer to itself"),
        ({"strategy": "feature"}, {"draws": 2}, "made for one client, not 2"),
    ],
)
def test_what_does_not_fit_is_refused(dataset, batches, server, changes, message):
    with pytest.raises(UserError, match=message):
        capture(spec(batches[1], server, **changes), dataset)


def test_a_batch_without_the_class_is_refused(dataset, batches):
    with pytest.raises(UserError, match="no sample of class 3"):
        capture(spec(batches[1][:8], {}), dataset)


def test_a_head_without_a_bias_is_refused(dataset, batches, monkeypatch):
    def unbiased(self, input_shape, num_classes):
        return {"flatten": nn.Flatten(), "fc": nn.Linear(prod(input_shape), num_classes, bias=False)}

    monkeypatch.setattr(LogisticRegression, "layers", unbiased)
    with pytest.raises(UserError, match="last affine layer with a bias"):
        capture(spec(batches[1], {}, model="logistic-regression"), dataset)
