"""F5 and what each transform does to an observation."""

import numpy as np
import pytest
import torch

from leaklab.attacks.adaptive.base import NoTransform
from leaklab.attacks.adaptive.scale import ClosedFormScale, ProfiledScale, estimate_scale
from leaklab.attacks.labels.head import head
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.errors import UserError

FACTORS = (0.1, 0.5, 1.0, 2.0, 3.5, 10.0)
NOISES = {
    "matched-noise": ("additive-noise", {"sigma": 0.1}),
    "matched-dp-sgd": ("dp-sgd", {"sigma": 0.1, "bound": 2.0}),
    "matched-laplace": ("laplace-noise", {"variance": 0.02}),
    "sliced-mixture": ("grad-defense", {}),
    "ranked-mixture": ("outpost", {}),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("seed", range(5))
def test_f5_the_hidden_factor_is_recovered(digits, observe, seed, dtype, tolerance):
    rows = slice(len(FACTORS) * seed, len(FACTORS) * (seed + 1))
    images, labels = digits[0][rows, None].to(dtype), digits[1][rows, None]
    found = estimate_scale(head(observe(images, labels, FACTORS, seed=seed)))
    truth = torch.tensor(FACTORS, dtype=dtype)
    assert ((found - truth) / truth).abs().max() < tolerance


def test_closed_form_divides_the_factor_out(digits, observe, knowledge):
    images, labels = digits[0][:6, None], digits[1][:6, None]
    prepared, scale = ClosedFormScale().prepare(observe(images, labels, FACTORS), knowledge)
    assert torch.allclose(scale, torch.tensor(FACTORS, dtype=torch.float64), rtol=1e-12)
    for name, value in observe(images, labels).update.items():
        assert torch.allclose(prepared.update[name], value, rtol=1e-10, atol=1e-14)


def test_closed_form_needs_no_rate(digits, observe, knowledge):
    blind = Knowledge("blind-rate", {fact: v for fact, v in knowledge.facts.items() if fact != "nominal_rate"})
    images, labels = digits[0][:2, None], digits[1][:2, None]
    prepared, scale = ClosedFormScale().prepare(observe(images, labels, [-0.03, -0.7], kind="delta"), blind)
    assert torch.allclose(scale, torch.tensor([0.03, 0.7], dtype=torch.float64), rtol=1e-11)
    assert prepared.kind == "gradient"


def test_closed_form_refuses_batches(digits, observe, knowledge):
    batch = Knowledge("honest-but-curious", {**knowledge.facts, "batch_size": 2})
    observation = observe(digits[0][:2].view(1, 2, 1, 8, 8), digits[1][:2].view(1, 2))
    with pytest.raises(UserError, match="batch_size <= 1, not 2"):
        ClosedFormScale().prepare(observation, batch)


def test_an_update_of_zero_is_left_alone(digits, observe, knowledge):
    prepared, scale = ClosedFormScale().prepare(observe(digits[0][:1, None], digits[1][:1, None], [0.0]), knowledge)
    assert scale.tolist() == [1.0]
    assert all(value.isfinite().all() for value in prepared.update.values())


def test_no_transform_divides_a_delta_by_the_assumed_rate(digits, observe, knowledge):
    images, labels = digits[0][:2, None], digits[1][:2, None]
    delta = observe(images, labels, [-0.1, -0.2], kind="delta")
    prepared, scale = NoTransform().prepare(delta, knowledge)
    expected = observe(images, labels, [1.0, 2.0])
    assert scale.tolist() == [1.0, 1.0]
    for name, value in prepared.update.items():
        assert torch.allclose(value, expected.update[name])
    with pytest.raises(UserError, match="needs 'nominal_rate'"):
        NoTransform().prepare(delta, Knowledge("blind-rate", {}))


def test_each_transform_brings_its_distance():
    # the attack keeps its own
    assert NoTransform().distance is None
    assert ClosedFormScale().distance is None
    assert ProfiledScale().distance is profiled_scale


def informed(name, steps, rounds):
    """Return the transform that was told its defense, and how many steps and rounds the observation is the mean of."""
    defense, settings = NOISES[name]
    facts = {"defense": {"name": defense, "settings": settings}, "batch_size": 1, "local_steps": steps}
    told = facts if rounds == 1 else {**facts, "rounds": rounds}
    return plugins.load("attacks/adaptive", name).informed(Knowledge("any", told))


@pytest.mark.parametrize("name", [name for name in NOISES if name != "ranked-mixture"])
def test_a_law_of_noise_counts_the_steps_of_all_rounds(name):
    assert informed(name, 3, 2) == informed(name, 6, 1) == informed(name, 1, 6)
    assert informed(name, 3, 2) != informed(name, 3, 1)


def test_a_law_whose_steps_differ_counts_every_round_from_its_first_step():
    once, twice = (informed("ranked-mixture", 3, rounds).distance.chances for rounds in (1, 2))
    assert twice == pytest.approx(np.convolve(once, once).tolist())
