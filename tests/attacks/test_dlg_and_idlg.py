"""End to end on real digits: quality, determinism, and what a wrong factor does to the printed attacks."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.base import NoTransform
from leaklab.attacks.adaptive.scale import ClosedFormScale, ProfiledScale
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.dlg import DeepLeakage, ImprovedDeepLeakage
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.models.normalisation import normalised
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS = 3
BUDGET = Budget(iterations=200, restarts=5)
ATTACKS = {"dlg": DeepLeakage(), "idlg": ImprovedDeepLeakage()}


@pytest.fixture(scope="module")
def attacked(digits, observe, knowledge):
    images, labels = digits[0][:TRIALS, None], digits[1][:TRIALS, None]

    def attack(name, factor=1.0, transform=None, budget=BUDGET):
        observation = observe(images, labels, [factor] * TRIALS)
        transform = transform or NoTransform()
        prepared, _ = transform.prepare(observation, knowledge)
        streams = partial(stream, 0, "attack")
        found = ATTACKS[name].reconstruct(Case(prepared, knowledge, budget, streams, transform.distance))
        return found, ((found.images - images) ** 2).flatten(1).mean(1), labels

    return attack


@pytest.mark.parametrize("name", ATTACKS)
def test_the_undefended_gradient_gives_image_and_label_away(attacked, name):
    found, errors, labels = attacked(name)
    assert errors.max() <= 1e-3
    assert torch.equal(found.labels, labels)
    assert found.candidate_losses.amin(1).max() < 1e-4


def test_idlg_as_printed_fails_at_twice_the_gradient(attacked):
    assert attacked("idlg", factor=2.0)[1].min() > 1e-2


@pytest.mark.parametrize("transform", [ClosedFormScale(), ProfiledScale()])
def test_a_scale_aware_attacker_undoes_the_factor(attacked, transform):
    _, errors, _ = attacked("idlg", factor=2.0, transform=transform)
    assert errors.max() <= 1e-3


@pytest.mark.parametrize("name", ATTACKS)
def test_f20_same_streams_same_bytes_and_the_loss_falls(attacked, name):
    short, one = Budget(iterations=2, restarts=1), Budget(iterations=1, restarts=1)
    first, second = attacked(name, budget=short)[0], attacked(name, budget=short)[0]
    assert torch.equal(first.images, second.images)
    assert first.starts == second.starts
    assert (first.candidate_losses < attacked(name, budget=one)[0].candidate_losses).all()


def test_records_tell_every_start(attacked):
    found, _, _ = attacked("idlg", factor=2.0, budget=Budget(iterations=3, restarts=2))
    assert [(start.trial, start.start) for start in found.starts] == [(t, s) for t in range(TRIALS) for s in range(2)]
    assert found.evaluations() == sum(start.evaluations for start in found.starts) > 0
    assert found.candidates.shape == (TRIALS, 2, 1, 1, 8, 8)
    chosen = found.candidates[torch.arange(TRIALS), found.candidate_losses.argmin(1)]
    assert torch.equal(found.images, chosen)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_float32_update_can_be_searched_in_float64(digits, observe, knowledge, name):
    """As if the update had been sent in float64, with float32's rounding in it."""
    observation = observe(digits[0][:TRIALS, None].float(), digits[1][:TRIALS, None])

    def run(observation, **settings):
        attack = replace(ATTACKS[name], **settings)
        return attack.reconstruct(Case(observation, knowledge, Budget(60, 1), partial(stream, 0, "attack")))

    found, cast = run(observation, dtype="float64"), run(observation.in_dtype(torch.float64))
    assert torch.equal(found.images, cast.images)
    assert (found.images.dtype, run(observation).images.dtype) == (torch.float64, torch.float32)
    assert ((found.images - digits[0][:TRIALS, None]) ** 2).mean() < 1e-4


def test_a_batch_is_found_at_an_unknown_scale_with_nothing_granted(digits, observe, knowledge):
    """Labels by head unmixing, images by L-BFGS on the direction of the update."""
    images, labels = digits
    chosen = torch.cat([(labels == 1).nonzero()[:1], (labels == 9).nonzero()[:1], (labels == 4).nonzero()[:1]])[:, 0]
    truth, classes = images[chosen].float()[None], labels[chosen].sort().values[None]
    given = Knowledge("any", {**knowledge.facts, "batch_size": 3})
    observation, _ = ProfiledScale().prepare(observe(truth, labels[chosen][None], [2.6]), given)
    attack = ImprovedDeepLeakage(label_rule="unmixed", dtype="float64")
    found = attack.reconstruct(Case(observation, given, Budget(100, 2), partial(stream, 0, "attack"), profiled_scale))
    assert torch.equal(found.labels, classes)
    order = labels[chosen].argsort()
    assert ((found.images - truth[:, order]) ** 2).mean() < 1e-2


def test_known_labels_are_used_and_asked_for(digits, observe, knowledge):
    images, labels = digits[0][:2].view(1, 2, 1, 8, 8), digits[1][:2].view(1, 2)
    facts = {**knowledge.facts, "batch_size": 2}
    observation, streams = observe(images, labels), partial(stream, 0)
    attack, budget = ImprovedDeepLeakage(label_rule="known"), Budget(1, 1)
    with pytest.raises(UserError, match="needs 'labels'"):
        attack.reconstruct(Case(observation, Knowledge("honest-but-curious", facts), budget, streams))
    granting = Knowledge("honest-but-curious-with-labels", {**facts, "labels": labels.tolist()})
    found = attack.reconstruct(Case(observation, granting, budget, streams))
    assert torch.equal(found.labels, labels)
    assert found.images.shape == images.shape
    with pytest.raises(UserError, match="reads one label"):
        ImprovedDeepLeakage().reconstruct(Case(observation, granting, budget, streams))


def test_a_delta_has_to_be_turned_into_a_gradient_first(digits, observe, knowledge):
    observation = observe(digits[0][:1, None], digits[1][:1, None], [-0.1], kind="delta")
    with pytest.raises(UserError, match="transform"):
        DeepLeakage().reconstruct(Case(observation, knowledge, BUDGET, partial(stream, 0)))


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_observation_that_is_not_finite_is_refused(digits, observe, knowledge, name, value):
    observation = observe(digits[0][:2, None], digits[1][:2, None])
    next(iter(observation.update.values()))[1] = value
    with pytest.raises(UserError, match=f"attack '{name}': the observed gradients are not finite"):
        ATTACKS[name].reconstruct(Case(observation, knowledge, BUDGET, partial(stream, 0)))


def test_unknown_label_rule(digits, observe, knowledge):
    observation = observe(digits[0][:1, None], digits[1][:1, None])
    with pytest.raises(UserError, match="label_rule 'guess'"):
        ImprovedDeepLeakage(label_rule="guess").reconstruct(Case(observation, knowledge, BUDGET, partial(stream, 0)))


def test_the_first_start_leads_to_the_image_behind_a_normalisation_too(digits, observe, knowledge, network_of):
    """Mean and deviation of MNIST: a start from N(0, 1) on the [0, 1] scale saturates the network and stays there."""
    scale = {"mean": [0.13], "std": [0.31]}
    images, labels = digits[0][:TRIALS, None], digits[1][:TRIALS, None]
    observation = observe(images, labels, network=normalised(network_of(), **scale))
    facts = Knowledge("honest-but-curious", {**knowledge.facts, "normalisation": scale})
    found = ImprovedDeepLeakage().reconstruct(Case(observation, facts, Budget(200, 1), partial(stream, 0, "attack")))
    assert ((found.images - images) ** 2).flatten(1).mean(1).max() <= 1e-3
