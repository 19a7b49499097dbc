"""End to end on real digits: four local steps, by the code that trains, with and without perturbed rates."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.base import NoTransform
from leaklab.attacks.adaptive.scale import ProfiledScale
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.delta_ig import DeltaInversion, PixelBox
from leaklab.attacks.matching.delta import DeltaMatching, Samples, as_delta
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.search.priors import total_variation
from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.requirements import needs
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, STEPS, NOMINAL = 2, 4, 0.01
MODEL = {"name": "dlg-lenet", "settings": {}}
LRP = LearningRatePerturbation()
STREAMS = partial(stream, 0, "attack")
SHORT = Budget(iterations=3, restarts=1)
MATCHINGS = ["nominal", "joint-rates", "profiled-rates", "surrogate"]
COMMON = {"architecture", "weights", "input_shape", "num_classes", "batch_size"}


@pytest.fixture(scope="session")
def sent(digits, network_of):
    """What clients send after four steps on their batch, and their rates: [T, B, ...] -> observation, rates."""

    def send(batch=1, defense=LRP, factor=2.0):
        """``factor`` is the client's p_k N, by which scheme 1 scales its mean rate."""
        images, labels = (part[: TRIALS * batch].unflatten(0, (TRIALS, batch)) for part in digits)
        weights = {name: value.detach() for name, value in network_of().named_parameters()}
        stacked = {name: value.expand(TRIALS, *value.shape) for name, value in weights.items()}
        contexts = [ClientContext(factor * NOMINAL, seed=0, client=trial) for trial in range(TRIALS)]
        form = trainable(network_of(), (1, 8, 8))
        result = local_training(form, stacked, [Batch(images, labels, {})] * STEPS, contexts, defense)
        update = {name: result.weights[name] - value for name, value in weights.items()}
        return Observation(weights, update, "delta", "eval", MODEL, tuple(range(TRIALS))), result.rates

    return send


@pytest.fixture(scope="session")
def knowing(knowledge, digits):
    """Knowledge of the shared fixture with four steps, the labels, and the facts in ``without`` taken away."""

    def make(batch=1, without=()):
        labels = digits[1][: TRIALS * batch].view(TRIALS, batch).tolist()
        facts = {"nominal_rate": NOMINAL, "local_steps": STEPS, "batch_size": batch, "labels": labels}
        facts = {name: value for name, value in {**knowledge.facts, **facts}.items() if name not in without}
        return Knowledge("blind-rate" if without else "honest-but-curious-with-labels", facts)

    return make


@pytest.fixture(scope="session")
def attack(sent, knowing, digits):
    """Run the plug-in; return what it found and its squared errors."""

    def run(observation, budget=SHORT, facts=None, transform=None, **settings):
        inverter = plugins.load("attacks", "delta-ig", settings)
        facts, distance = facts or knowing(), squared_l2
        if transform is not None:
            observation, distance = transform.prepare(observation, facts)[0], transform.distance
        found = inverter.reconstruct(Case(observation, facts, budget, STREAMS, distance))
        truth = digits[0][: found.images.shape[1] * TRIALS].view(TRIALS, -1, 1, 8, 8)[list(observation.trials)]
        return found, ((found.images - truth) ** 2).flatten(1).mean(1)

    return run


LONG = Budget(iterations=120, restarts=1)


def test_nominal_matching_reconstructs_the_undefended_update(sent, attack, digits):
    observation, _ = sent(defense=NoDefense(), factor=1.0)
    found, errors = attack(observation, Budget(iterations=40, restarts=1), optimizer="lbfgs")
    assert errors.max() < 1e-4
    assert torch.equal(found.labels, digits[1][:TRIALS, None])


def test_nominal_matching_fails_under_perturbed_rates(sent, attack):
    observation, rates = sent()
    factors = rates.mean(1) / NOMINAL
    assert factors.min() > 1.5
    _, errors = attack(observation.select([0]), LONG)
    assert errors.min() > 0.1


@pytest.mark.parametrize(("matching", "factor"), [("joint-rates", 2.0), ("joint-rates", 5.0), ("surrogate", 2.0)])
def test_an_attacker_who_knows_the_defense_reconstructs_perturbed_updates(sent, attack, matching, factor):
    """The factor p_k N is withheld: it is not among the settings, and found with the rates."""
    observation, _ = sent(factor=factor)
    found, errors = attack(observation, Budget(iterations=240, restarts=1), matching=matching)
    assert errors.max() < 5e-3
    assert found.images.min() >= 0
    assert found.images.max() <= 1


def test_lbfgs_serves_smooth_networks(sent, attack):
    observation, _ = sent()
    for matching in ("profiled-rates", "surrogate"):
        one, budget = observation.select([0]), Budget(iterations=40, restarts=1)
        _, errors = attack(one, budget, matching=matching, optimizer="lbfgs")
        assert errors.max() < 5e-3


def test_the_surrogate_needs_neither_rate_nor_steps(sent, attack, knowing):
    blind = knowing(without=("nominal_rate", "local_steps", "labels"))
    observation, _ = sent()
    _, errors = attack(observation, LONG, blind, matching="surrogate")
    assert errors.max() < 5e-3
    turned, _ = attack(observation, SHORT, blind, ProfiledScale(), matching="surrogate")
    assert torch.equal(turned.images, attack(observation, SHORT, blind, matching="surrogate")[0].images)


@pytest.mark.parametrize("matching", MATCHINGS)
def test_a_gradient_is_turned_back_into_its_delta(sent, attack, knowing, matching):
    observation, _ = sent()
    direct, _ = attack(observation, matching=matching)
    prepared, _ = attack(observation, matching=matching, transform=NoTransform())
    assert torch.allclose(direct.candidate_losses, prepared.candidate_losses, rtol=1e-6)
    back = as_delta(observation.as_gradient(knowing()), knowing())
    assert back.kind == "delta"
    assert all(torch.allclose(back.update[n], v, rtol=1e-12) for n, v in observation.update.items())


@pytest.mark.parametrize("matching", MATCHINGS)
def test_f20_same_streams_same_bytes_and_a_trial_does_not_depend_on_the_others(sent, attack, matching):
    observation, _ = sent()
    first, second = attack(observation, matching=matching)[0], attack(observation, matching=matching)[0]
    assert torch.equal(first.images, second.images)
    assert first.starts == second.starts
    alone, _ = attack(observation.select([1]), matching=matching)
    assert torch.allclose(alone.images[0], first.images[1], rtol=0, atol=1e-9)
    assert [start.trial for start in alone.starts] == [1]


@pytest.mark.parametrize("optimizer", ["signed-adam", "lbfgs"])
@pytest.mark.parametrize("matching", MATCHINGS)
def test_batches_with_known_labels_and_every_start_on_record(sent, attack, knowing, matching, optimizer):
    observation, _ = sent(batch=2)
    settings = {"matching": matching, "optimizer": optimizer, "label_rule": "known"}
    found, _ = attack(observation, Budget(1, 2), knowing(batch=2), **settings)
    assert found.images.shape == (TRIALS, 2, 1, 8, 8)
    assert found.candidates.shape == (TRIALS, 2, 2, 1, 8, 8)
    assert torch.equal(found.images, found.candidates[torch.arange(TRIALS), found.candidate_losses.argmin(1)])
    assert found.labels.tolist() == knowing(batch=2).facts["labels"]
    assert [(start.trial, start.start) for start in found.starts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert not torch.equal(found.candidates[:, 0], found.candidates[:, 1])


def test_smoothness_is_a_weight_on_the_total_variation(sent, attack, digits, network_of):
    observation, _ = sent()
    found, _ = attack(observation, smoothness=5.0)
    samples = Samples((1, 1, 8, 8), 10, digits[1][:TRIALS, None])
    rates = torch.full((STEPS,), NOMINAL, dtype=torch.float64)
    plain = DeltaMatching(network_of().eval(), list(observation.update.values()), samples, rates, squared_l2)
    prior = 5 * plain.loss_of_nothing() * total_variation(found.images)
    expected = plain(found.images.flatten(1), torch.arange(TRIALS))[0] + prior
    assert torch.allclose(found.candidate_losses[:, 0], expected.detach())


def test_the_box_holds_pixels_only():
    points = torch.tensor([[-1.0, 2.0, -1.0, 2.0]])
    assert PixelBox(pixels=2).project(points).tolist() == [[0.0, 1.0, -1.0, 2.0]]


def test_what_each_matching_needs_is_known_before_any_job_runs():
    rates = {"nominal_rate", "local_steps"}
    assert needs("delta-ig", {}) == COMMON | rates
    assert needs("delta-ig", {"matching": "joint-rates", "label_rule": "known"}) == COMMON | rates | {"labels"}
    assert needs("delta-ig", {"matching": "profiled-rates"}) == COMMON | rates
    assert needs("delta-ig", {"matching": "surrogate"}) == COMMON


@pytest.mark.parametrize("fact", ["nominal_rate", "local_steps"])
@pytest.mark.parametrize("matching", MATCHINGS[:3])
def test_withheld_rates_are_asked_for(sent, attack, knowing, matching, fact):
    with pytest.raises(UserError, match=f"needs '{fact}'"):
        attack(sent()[0], facts=knowing(without=(fact,)), matching=matching)


def test_withheld_labels_are_asked_for(sent, attack, knowing):
    with pytest.raises(UserError, match="needs 'labels'"):
        attack(sent()[0], facts=knowing(without=("labels",)), label_rule="known")
    with pytest.raises(UserError, match="reads one label"):
        attack(sent(batch=2)[0], facts=knowing(batch=2))


@pytest.mark.parametrize("budget", [Budget(0, 1), Budget(1, 0)])
@pytest.mark.parametrize("optimizer", ["signed-adam", "lbfgs"])
def test_an_attack_without_budget_is_refused(sent, attack, budget, optimizer):
    with pytest.raises(UserError, match="at least one iteration and one restart"):
        attack(sent()[0], budget, optimizer=optimizer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"matching": "guess"}, "no matching 'guess'"),
        ({"label_rule": "guess"}, "no label_rule 'guess'"),
        ({"optimizer": "adam"}, "'delta-ig': optimizer: Input should be 'signed-adam' or 'lbfgs', not 'adam'"),
        ({"client_factor": 2.0}, "client_factor"),
    ],
)
def test_unknown_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        plugins.load("attacks", "delta-ig", settings)


def test_an_unknown_optimizer_is_refused_without_a_plan_too():
    with pytest.raises(UserError, match="no optimizer 'adam': choose from signed-adam, lbfgs"):
        DeltaInversion(optimizer="adam")


def test_a_broken_observation_is_refused(sent, attack):
    observation, _ = sent()
    with pytest.raises(UserError, match="not finite"):
        attack(observation.scaled(float("inf")))
    for matching in ("nominal", "surrogate"):
        with pytest.raises(UserError, match="evaluation state"):
            attack(replace(observation, mode="train"), matching=matching)
