"""A vision transformer's update gives its image away: exact on captures, whatever the rates, on trained weights too."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Case
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

SMALL = {"name": "vit", "patch": 7, "width": 32, "blocks": 2, "heads": 2}


@pytest.fixture(scope="module")
def dataset(digits):
    images = F.interpolate(digits[0][:60], size=(28, 28)).mul(255).round().to(torch.uint8)
    one = torch.ones(1)
    return Dataset("digits", 10, images[:20], digits[1][:20], images[20:], digits[1][20:60], 0.3 * one, 0.4 * one)


def observed(dataset, **changes):
    fields = {"dataset": "digits", "images": {"count": 3, "seed": 1}, "model": SMALL, "defense": "none", "rate": 0.1}
    return capture(CaptureSpec.model_validate({**fields, **changes}), dataset)


def attack(observation, knowledge, **settings):
    streams = partial(stream, 0, "attack")
    return plugins.load("attacks", "position-reading", settings).reconstruct(
        Case(observation, knowledge, Budget(1, 1), streams)
    )


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("defense", ["none", "lrp", "gradient-clipping"])
def test_one_step_is_read_exactly_whatever_the_factor(dataset, defense, kind):
    observation, knowledge, truth = observed(dataset, defense=defense, kind=kind, dtype="float64")
    found = attack(observation, knowledge)
    torch.testing.assert_close(found.images, truth.images, rtol=0, atol=1e-6)
    assert torch.equal(found.labels, truth.labels)
    assert found.evaluations() == 0
    assert [start.trial for start in attack(observation.select([2, 0]), knowledge).starts] == [2, 0]


def test_hidden_rates_of_several_steps_are_on_both_sides(dataset):
    observation, knowledge, truth = observed(dataset, defense="lrp", kind="delta", local_steps=5, dtype="float64")
    torch.testing.assert_close(attack(observation, knowledge).images, truth.images, rtol=0, atol=1e-6)


def test_an_enlargement_in_front_of_the_patches_is_undone(dataset):
    """As in the printed network: patches of the enlarged image, the image at its own size."""
    model = {**SMALL, "patch": 14, "side": 56}
    observation, knowledge, truth = observed(dataset, model=model, dtype="float64")
    torch.testing.assert_close(attack(observation, knowledge).images, truth.images, rtol=0, atol=1e-6)


def test_what_single_precision_leaves_of_it(dataset):
    observation, knowledge, truth = observed(dataset, kind="delta", dtype="float32", rate=0.01)
    error = (attack(observation, knowledge).images - truth.images).square().mean()
    assert -10 * torch.log10(error) > 30


def test_what_the_equations_leave_over_says_how_far_to_trust_them(dataset):
    """Weak noise: plain least squares multiply it where the derivatives are small, the default does not."""
    observation, knowledge, truth = observed(
        dataset, defense={"name": "additive-noise", "sigma": 1e-4}, dtype="float64"
    )
    trusting, doubting = (attack(observation, knowledge, **settings) for settings in ({"doubt": 0.0}, {}))
    errors = [float((found.images - truth.images).square().mean()) for found in (trusting, doubting)]
    assert errors[1] < errors[0] / 2


def test_noise_and_pruning_break_it(dataset):
    """Least squares take noise for signal; the same image without it is there."""
    for defense in ({"name": "additive-noise", "sigma": 0.01}, {"name": "gradient-compression", "dropped": 0.8}):
        observation, knowledge, truth = observed(dataset, defense=defense, dtype="float64")
        assert float((attack(observation, knowledge).images - truth.images).square().mean()) > 1e-2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "mlp"}, "needs the updates of a vision transformer's patches and learned positions"),
        ({"model": {**SMALL, "patch": 4}}, "cannot tell 49 patches apart by tokens of width 32"),
        ({"batch_size": 3}, "batch_size"),
    ],
    ids=["no transformer", "narrow tokens", "batch"],
)
def test_what_it_cannot_read_is_refused(dataset, changes, said):
    observation, knowledge, _ = observed(dataset, **changes)
    with pytest.raises(UserError, match=said):
        attack(observation, knowledge)
