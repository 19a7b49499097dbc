"""A capture knows whether its defense changed anything: what does nothing is said to, whatever an attack misses."""

import pytest
import torch

from leaklab.captures import capture as capturing
from leaklab.captures.capture import capture, defense_changes
from leaklab.captures.observe import changes_update
from leaklab.specs.capture import CaptureSpec

IDLE = "from leaklab.defenses.base import Defense\n\n\nclass Idle(Defense):\n    pass\n\n\nPLUGIN = Idle\n"
LATER = """
from leaklab.defenses.base import Defense


class Later(Defense):
    def update(self, delta, context):
        return delta if context.client == %d else {name: value / 2 for name, value in delta.items()}


PLUGIN = Later
"""


def spec(defense, **changes):
    fields = {
        "dataset": "digits",
        "images": {"count": 3, "seed": 1},
        "draws": 2,
        "model": "dlg-lenet",
        "defense": defense,
        "kind": "delta",
        "local_steps": 2,
    }
    return CaptureSpec.model_validate({**fields, **changes})


def changes(dataset, asked):
    return defense_changes(asked, capture(asked, dataset)[0].update, dataset)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["delta", "gradient"])
def test_an_empty_class_does_nothing_and_a_defense_does_something(dataset, plant, dtype, kind):
    plant("idle", IDLE)
    assert changes(dataset, spec("idle", dtype=dtype, kind=kind)) is False
    assert changes(dataset, spec("lrp", dtype=dtype, kind=kind)) is True


def test_a_bound_that_no_gradient_reaches_does_nothing(dataset):
    assert changes(dataset, spec({"name": "gradient-clipping", "bound": 1e6})) is False
    assert changes(dataset, spec({"name": "gradient-clipping", "bound": 0.01})) is True


def test_one_client_whose_update_is_changed_is_enough(dataset, plant):
    first = capture(spec("none"), dataset)[2].trials[0]["image"]
    plant("later", LATER % first)
    assert changes(dataset, spec("later")) is True


def test_what_keeps_parameters_back_does_something(dataset):
    assert changes(dataset, spec("hide-classifier")) is True


def test_nothing_is_said_of_no_defense(dataset):
    assert changes(dataset, spec("none")) is None


def test_a_defense_that_shows_at_once_costs_one_client_more(dataset, monkeypatch):
    asked, captured = spec("lrp"), []
    update = capture(asked, dataset)[0].update

    def counted(own, *rest):
        captured.append(own.images.count)
        return capture(own, *rest)

    monkeypatch.setattr(capturing, "capture", counted)
    assert defense_changes(asked, update, dataset)
    assert captured == [1]


def test_roundings_are_no_change_and_more_is():
    plain = {"w": torch.ones(2, 5, dtype=torch.float64), "b": torch.zeros(2, 1, dtype=torch.float64)}
    assert not changes_update({name: value * (1 + 1e-15) for name, value in plain.items()}, plain)
    assert changes_update({name: value * (1 + 1e-9) for name, value in plain.items()}, plain)
    one = {name: value.clone() for name, value in plain.items()}
    one["b"][1] = 1e-9
    assert changes_update(one, plain)
    assert changes_update({"w": plain["w"]}, plain)
    zero = {name: torch.zeros_like(value) for name, value in plain.items()}
    assert not changes_update(zero, zero)
    assert changes_update(one, zero)
