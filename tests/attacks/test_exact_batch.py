"""The exact attack as a plug-in: on observations of the house, whatever factor, kind and precision they have."""

from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest
import torch

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.exact_batch import METHODS, ExactBatch
from leaklab.attacks.first_layer.layer import Reading, first_layers
from leaklab.defenses.outpost import GradientCompression
from leaklab.models.affine import MultilayerPerceptron
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, COUNT, TRIALS = (1, 8, 8), 10, 3, 4
SETTINGS = {"hidden": 128, "dropout": 0.0}


@pytest.fixture(scope="module")
def private(digits):
    images, labels = digits[0][: TRIALS * COUNT], digits[1][: TRIALS * COUNT]
    return images.view(TRIALS, COUNT, *images.shape[1:]), labels.view(TRIALS, COUNT)


@pytest.fixture
def granted(knowledge):
    return Knowledge("any", {**knowledge.facts, "batch_size": COUNT})


def observed(observe, private, factors=None, kind="gradient", dtype=torch.float64):
    network = MultilayerPerceptron(**SETTINGS).initialised(SHAPE, CLASSES, 0, torch.float64).eval()
    made = observe(*private, factors, network=network, kind=kind)
    update = {name: value.to(dtype) for name, value in made.update.items()}
    return replace(made, model={"name": "mlp", "settings": SETTINGS}, update=update)


def run(observation, knowledge, method="peel"):
    return ExactBatch(method).reconstruct(Case(observation, knowledge, Budget(1, 1), partial(stream, 0)))


def errors(found, private):
    """Return the largest error of each batch under the best order of its images."""
    orders = list(permutations(range(COUNT)))
    return [
        min(float((images[list(order)] - true).abs().max()) for order in orders)
        for images, true in zip(found.images, private[0], strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "factors"), [("gradient", None), ("gradient", [37.0] * TRIALS), ("delta", [0.003] * TRIALS)]
)
def test_a_batch_is_exact_and_proven_whatever_the_factor(observe, private, granted, kind, factors):
    found = run(observed(observe, private, factors, kind), granted)
    proven = [start.stopped == "matched" for start in found.starts]
    assert sum(proven) >= TRIALS - 1
    assert all(error < 1e-6 for error, sure in zip(errors(found, private), proven, strict=True) if sure)
    assert found.certified.tolist() == proven
    assert found.evaluations() == 0


def test_single_precision_leaves_more_than_60_db(observe, private, granted):
    found = run(observed(observe, private, dtype=torch.float32), granted)
    assert sorted(errors(found, private))[TRIALS // 2] < 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_proves_nothing_certifies_nothing(observe, private, granted, method):
    found = run(observed(observe, private), granted, method)
    assert (found.certified is None) == (method not in ("spear", "peel"))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_as_many_images_as_there_are(observe, private, granted, method):
    found = run(observed(observe, private), granted, method)
    assert found.images.shape == private[0].shape


def test_the_normalisation_is_undone(observe, private, granted):
    scale = {"mean": [0.13], "std": [0.31]}
    knowledge = Knowledge("any", {**granted.facts, "normalisation": scale})
    plain, scaled = (first_layers(observed(observe, private), one, "exact-batch")[0] for one in (granted, knowledge))
    image = torch.rand(64, dtype=torch.float64).numpy()
    on_network = (image - 0.13) / 0.31
    before = plain.weight @ on_network + plain.bias
    assert abs(scaled.weight @ image + scaled.bias - before).max() < 1e-12


def test_what_does_not_fit_is_refused(observe, private, granted, network_of):
    with pytest.raises(UserError, match="needs a network that begins with an affine layer"):
        run(observe(*private), granted)
    observation = observed(observe, private)
    kept = {name: value for name, value in observation.update.items() if not name.startswith("fc1")}
    with pytest.raises(UserError, match="keeps its first layer to itself"):
        run(replace(observation, update=kept), granted)
    with pytest.raises(UserError, match="65 samples cannot be told apart in a first layer of 128 units and 64 inputs"):
        run(observation, Knowledge("any", {**granted.facts, "batch_size": 65}))


def test_zeros_of_compression_are_completed_and_nothing_is_certified(observe, private, granted):
    seen = observed(observe, private)
    compression = GradientCompression(0.5)
    update = {name: torch.stack([compression._pruned(one) for one in value]) for name, value in seen.update.items()}
    blind, found = (
        ExactBatch(pruned=pruned).reconstruct(
            Case(replace(seen, update=update), granted, Budget(1, 1), partial(stream, 0))
        )
        for pruned in (False, True)
    )
    before, after = (np.median(errors(one, private)) for one in (blind, found))
    assert after < before / 2
    assert all(start.stopped == "budget" and start.matching_loss == 1 for start in found.starts)
    whole = ExactBatch(pruned=True).reconstruct(Case(seen, granted, Budget(1, 1), partial(stream, 0)))
    assert torch.equal(whole.images, run(seen, granted).images)


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("weight_decay", 1e-4, "with an L2 term: set"),
        ("normalisation", {"mean": [0.1], "std": [0.3]}, "with normalized inputs: capture"),
    ],
)
def test_zeros_that_are_no_small_products_are_refused(observe, private, granted, fact, value, words):
    knowledge = Knowledge("any", {**granted.facts, fact: value})
    with pytest.raises(UserError, match=words):
        ExactBatch(pruned=True).reconstruct(
            Case(observed(observe, private), knowledge, Budget(1, 1), partial(stream, 0))
        )


def test_a_batch_of_which_nothing_is_read_is_diverged_and_not_certified(observe, private, granted, monkeypatch):
    nothing = Reading(np.full((COUNT, 64), np.nan))
    monkeypatch.setitem(METHODS, "peel", lambda layer, count, draws: nothing)
    found = run(observed(observe, private), granted)
    assert all(start.diverged and start.stopped == "diverged" for start in found.starts)
    assert torch.isinf(found.candidate_losses).all()
