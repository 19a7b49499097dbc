"""The rate that a spec prescribes is the one by which the server divides, and the one that undefended clients use."""

from functools import partial

import pytest
import torch

from leaklab.captures.capture import capture, hold_images
from leaklab.captures.start import assumed_rate, round_factor
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec

TRAINING = {
    "dataset": "digits",
    "partition": {"name": "iid", "clients": 6},
    "model": "dlg-lenet",
    "rates": [[0.02], [0.05]],
    "rounds": 4,
    "local_steps": 3,
    "batch_size": 4,
    "schedule": "cosine",
    "seeds": [1],
}


def spec(rounds, **changes):
    fields = {
        "dataset": "digits",
        "images": {"count": 2},
        "model": "dlg-lenet",
        "rate": 0.05,
        "rate_schedule": "inverse",
        "local_steps": 3,
        "schedule": "cosine",
        "state": {"train": {**TRAINING, "until": rounds}},
    }
    return CaptureSpec.model_validate({**fields, **changes})


@pytest.fixture
def one_capture(dataset):
    return partial(_with_initial_weights, dataset)


def _with_initial_weights(dataset, function, what):
    held = hold_images(spec(0, state=None, schedule="constant"), dataset)
    return function(what, dataset, (), {name: value.expand(2, *value.shape) for name, value in held.state.items()})


@pytest.mark.parametrize(("rounds", "left"), [(0, 1.0), (1, 0.5 + 0.125**0.5), (2, 0.5)])
def test_steps_and_rounds_lower_it(one_capture, rounds, left):
    what = spec(rounds)
    assert round_factor(what) == pytest.approx(left)
    assert assumed_rate(what) == pytest.approx(0.05 * left * (1 + 1 / 2 + 1 / 3))
    assert one_capture(hold_images, what).steps.assumed_rate == pytest.approx(assumed_rate(what), rel=1e-12)
    rates = one_capture(capture, what)[2].rates
    assert torch.allclose(rates.sum(1), torch.full((2,), assumed_rate(what), dtype=rates.dtype))


def test_initial_weights_are_the_first_of_one_round():
    assert assumed_rate(spec(0, state=None, schedule="constant")) == pytest.approx(0.05 * (1 + 1 / 2 + 1 / 3))


def test_nothing_is_left_after_the_last_round():
    with pytest.raises(UserError, match="schedule 'cosine' ends with round 4"):
        assumed_rate(spec(4))
