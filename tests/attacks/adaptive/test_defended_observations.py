"""The transforms on real captures: what an attacker who knows the defense sees where the plain one is misled."""

from dataclasses import replace
from functools import partial
from math import sqrt

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.base import Budget, Case, victim
from leaklab.attacks.dlg import ImprovedDeepLeakage
from leaklab.attacks.matching.distances import squared_l2, squared_norm
from leaklab.attacks.matching.inversion import Inversion
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.defenses.soteria import soteria_mask
from leaklab.observations import requirements
from leaklab.observations.base import Knowledge
from leaklab.observations.threat_models import OWN
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

TRIALS, SHAPE = 3, (1, 8, 8)
SIGMA, BOUND = 0.05, 2.0
DEFENSES = {
    "none": {},
    "gradient-compression": {"dropped": 0.9},
    "gradient-clipping": {"bound": BOUND},
    "additive-noise": {"sigma": SIGMA},
    "clipping-noise": {"sigma": SIGMA, "bound": BOUND},
}
EXACT = {
    "support-only": "gradient-compression",
    "prune-emulation": "gradient-compression",
    "clip-emulation": "gradient-clipping",
    "muted-layer": "soteria",
    "masked-columns": "soteria",
}
LIKELIHOODS = {"additive-noise": {"sigma": SIGMA}, "clipping-noise": {"sigma": SIGMA, "bound": BOUND}}


@pytest.fixture(scope="module")
def dataset():
    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels, one = torch.tensor(loaded.target), torch.ones(1)
    return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], 0 * one, one)


@pytest.fixture(scope="module")
def captured(dataset):
    """Return observation, knowledge and truth of three clients with one digit each; made once per defense."""
    made = {}

    def of(defense, **changes):
        key = (defense, *changes.items())
        if key not in made:
            made[key] = with_soteria(of("none", **changes)) if defense == "soteria" else plain(defense, **changes)
        return made[key]

    def plain(defense, **changes):
        fields = {
            "dataset": "digits",
            "images": {"count": TRIALS, "seed": 1},
            "model": "dlg-lenet",
            "rate": 1.0,
            "defense": {"name": defense, "settings": DEFENSES[defense]},
        }
        return capture(CaptureSpec.model_validate(fields | changes), dataset)

    return of


def with_soteria(undefended):
    """Zero the pruned columns of an undefended observation, each trial's by the mask of its own image."""
    observation, knowledge, truth = undefended
    network = victim(observation, knowledge, "the test").eval()
    masks = torch.stack([soteria_mask(network, truth.images[trial], "fc", 0.5) for trial in range(TRIALS)])
    weight = torch.where(masks[:, None], 0.0, observation.update["fc.weight"])
    return replace(observation, update=observation.update | {"fc.weight": weight}), knowledge, truth


def at_the_truth(prepared, knowledge, truth, distance):
    network = victim(prepared, knowledge, "the test")
    inversion = Inversion(network, list(prepared.update.values()), (1, *SHAPE), 10, distance, truth.labels)
    return inversion(truth.images.flatten(1), torch.arange(TRIALS))


def entries(observation):
    return sum(value[0].numel() for value in observation.update.values())


@pytest.mark.parametrize(("name", "defense"), EXACT.items())
@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_f1_loss_and_derivative_vanish_at_the_truth_and_the_plain_ones_do_not(captured, name, defense, kind):
    observation, knowledge, truth = captured(defense, kind=kind)
    transform = plugins.load("attacks/adaptive", name)
    prepared, scale = transform.prepare(observation, knowledge)
    value, derivative = at_the_truth(prepared, knowledge, truth, transform.distance)
    assert (prepared.kind, scale.tolist()) == ("gradient", [1.0] * TRIALS)
    assert value.abs().max() < 1e-10
    assert derivative.abs().max() < 1e-10
    misled, slope = at_the_truth(prepared, knowledge, truth, squared_l2)
    assert (misled > 1e-2 * squared_norm(list(prepared.update.values()))).all()
    assert (slope.norm(dim=1) > 1e-2).all()


@pytest.mark.parametrize(("name", "defense"), EXACT.items())
def test_the_transforms_are_harmless_without_the_defense(captured, name, defense):
    observation, knowledge, truth = captured("none")
    transform = plugins.load("attacks/adaptive", name)
    prepared, _ = transform.prepare(observation, knowledge)
    assert at_the_truth(prepared, knowledge, truth, transform.distance)[0].abs().max() < 1e-10
    assert set(transform.requirements.fits) >= {"none", defense}


@pytest.mark.parametrize(("defense", "settings"), LIKELIHOODS.items())
def test_matched_noise_is_half_the_number_of_entries_at_the_truth(captured, defense, settings):
    observation, knowledge, truth = captured(defense)
    transform = plugins.load("attacks/adaptive", "matched-noise", settings)
    prepared, _ = transform.prepare(observation, knowledge)
    value, _ = at_the_truth(prepared, knowledge, truth, transform.distance)
    half = entries(prepared) / 2
    assert (value - half).abs().max() < 4 * sqrt(half)
    plain = at_the_truth(prepared, knowledge, truth, squared_l2)[0]
    if defense == "clipping-noise":
        assert (plain / (2 * SIGMA**2) > half + 10 * sqrt(half)).all()
    else:
        assert torch.allclose(plain, 2 * SIGMA**2 * value, rtol=1e-12)


def test_the_bound_is_overestimated_under_noise(captured):
    """What clip-emulation takes for the bound is the root of S^2 + n sigma^2."""
    observation, _, _ = captured("clipping-noise")
    norms = squared_norm(list(observation.update.values())).sqrt()
    expected = sqrt(BOUND**2 + entries(observation) * SIGMA**2)
    assert expected > 2 * BOUND
    assert torch.allclose(norms, torch.full_like(norms, expected), rtol=0.05)


@pytest.mark.parametrize(("defense", "settings"), LIKELIHOODS.items())
@pytest.mark.parametrize("steps", [1, 4])
def test_matched_noise_reads_from_the_facts_what_an_item_leaves_out(captured, defense, settings, steps):
    _, knowledge, _ = captured(defense, local_steps=steps, rate=1e-9)
    said = MatchedNoise(**{**settings, "sigma": SIGMA / sqrt(steps)})
    for given in ({}, *({name: getattr(said, name)} for name in settings)):
        assert MatchedNoise(**given).informed(knowledge) == said.informed(knowledge) == said


def test_matched_noise_has_no_distance_before_it_is_informed():
    with pytest.raises(UserError, match="set sigma, or read it from the facts"):
        _ = MatchedNoise().distance


def test_over_several_steps_the_noise_is_that_of_their_mean(captured):
    observation, knowledge, truth = captured("additive-noise", local_steps=4, rate=1e-9)
    with pytest.raises(UserError, match=r"over 4 steps is not 0.05: leave sigma .* out or set it to 0.025"):
        plugins.load("attacks/adaptive", "matched-noise", {"sigma": SIGMA}).prepare(observation, knowledge)
    transform = plugins.load("attacks/adaptive", "matched-noise", {"sigma": SIGMA / 2})
    prepared, _ = transform.prepare(observation, knowledge)
    value, _ = at_the_truth(prepared, knowledge, truth, transform.distance)
    half = entries(prepared) / 2
    assert (value - half).abs().max() < 5 * sqrt(half)


@pytest.mark.parametrize(
    ("defense", "settings", "message"),
    [
        ("additive-noise", {"sigma": 0.1}, "leave sigma .* out or set it to 0.05"),
        ("clipping-noise", {"sigma": SIGMA, "bound": 4.0}, "bound of 'clipping-noise' is not 4.0: leave bound of"),
        ("additive-noise", {"sigma": SIGMA, "bound": 4.0}, "bound of 'additive-noise' is not 4.0: leave bound of"),
        ("gradient-clipping", {"sigma": SIGMA}, "has no sigma"),
        ("additive-noise", {"sigma": 0.0}, "'matched-noise': sigma: Input should be greater than 0, not 0.0"),
        ("additive-noise", {"bound": -1}, "'matched-noise': bound: Input should be greater than 0, not -1"),
    ],
)
def test_matched_noise_refuses_settings_that_are_not_the_defenses(captured, defense, settings, message):
    observation, knowledge, _ = captured(defense)
    with pytest.raises(UserError, match=message):
        plugins.load("attacks/adaptive", "matched-noise", settings).prepare(observation, knowledge)


@pytest.mark.parametrize("setting", ["sigma", "bound"])
def test_matched_noise_made_without_a_plan_refuses_them_too(setting):
    with pytest.raises(UserError, match=f"{setting} must be a number above 0"):
        MatchedNoise(**{setting: -1.0})


@pytest.mark.parametrize("name", [*EXACT, "matched-noise"])
def test_needs_are_declared_for_the_planner(captured, name):
    """What prepare asks for is what the source declares; so a plan fails before a job does."""
    transform = plugins.load("attacks/adaptive", name)
    requirements.check("idlg", {}, "honest-but-curious", name, {}, "delta")
    requirements.check_transform(name, sorted(transform.requirements.fits)[0], 1)
    with pytest.raises(UserError, match="does not fit defense 'lrp'"):
        requirements.check_transform(name, "lrp", 1)
    with pytest.raises(UserError, match="needs 'nominal_rate'"):
        requirements.check("idlg", {}, "blind-rate", name, {}, "delta")
    defense = EXACT.get(name, "additive-noise")
    observation, knowledge, _ = captured(defense, kind="delta")
    asked = transform.requirements
    declared = {*asked.facts, *asked.facts_for_delta} - OWN
    facts = {fact: value for fact, value in knowledge.facts.items() if fact in declared}
    transform.prepare(observation, Knowledge("honest-but-curious", facts))
    for fact in declared:
        fewer = {key: value for key, value in facts.items() if key != fact}
        with pytest.raises(UserError, match=f"'{name}' needs '{fact}'"):
            transform.prepare(observation, Knowledge("honest-but-curious", fewer))


@pytest.mark.parametrize("name", ["muted-layer", "masked-columns"])
def test_a_network_without_an_affine_head_is_refused(captured, name):
    observation, knowledge, _ = captured("none")
    headless = {part: dict(list(getattr(observation, part).items())[:-1]) for part in ("weights", "update")}
    with pytest.raises(UserError, match="affine layer with a bias"):
        plugins.load("attacks/adaptive", name).prepare(replace(observation, **headless), knowledge)


def image_errors(captured, defense, name, settings=None):
    observation, knowledge, truth = captured(defense)
    transform = plugins.load("attacks/adaptive", name, settings or {})
    prepared, _ = transform.prepare(observation, knowledge)
    attack, budget, streams = ImprovedDeepLeakage(), Budget(iterations=40, restarts=1), partial(stream, 0, "attack")
    found = attack.reconstruct(Case(prepared, knowledge, budget, streams, transform.distance))
    assert torch.equal(found.labels, truth.labels)
    return ((found.images - truth.images) ** 2).flatten(1).mean(1)


@pytest.mark.parametrize("defense", sorted(set(EXACT.values())))
def test_the_adaptive_attacker_sees_the_images_and_the_plain_one_does_not(captured, defense):
    assert image_errors(captured, defense, "none").median() > 0.05
    for name in (name for name, fitting in EXACT.items() if fitting == defense):
        assert image_errors(captured, defense, name).median() < 1e-3, name


def test_the_closed_form_sees_through_a_clip_which_is_a_factor(captured):
    """It was not made for clipping and needs no word about it."""
    observation, knowledge, truth = captured("gradient-clipping")
    transform = plugins.load("attacks/adaptive", "closed-form-scale")
    prepared, scale = transform.prepare(observation, knowledge)
    exact = squared_norm(list(captured("none")[0].update.values())).sqrt()
    assert torch.allclose(scale, BOUND / exact)
    assert at_the_truth(prepared, knowledge, truth, squared_l2)[0].abs().max() < 1e-10
