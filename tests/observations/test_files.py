"""The capture's files hold what they should, and only that."""

import pytest
import torch

from leaklab.captures.truth import Truth, load_truth, save_truth
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors


@pytest.fixture
def observation():
    # an order that no sorting by name or size would give back
    weights = {"z": torch.rand(2, 3), "a": torch.rand(2), "m": torch.rand(5, 5)}
    update = {name: torch.rand(4, *value.shape) for name, value in weights.items()}
    return Observation(weights, update, "delta", "train", {"name": "mlp", "settings": {"x": 1}}, (0, 1, 2, 3))


@pytest.fixture
def files(tmp_path):
    return tmp_path / "o.safetensors", tmp_path / "o.json"


def test_observation_comes_back_in_the_models_order(observation, files):
    knowledge = Knowledge("blind-rate", {"batch_size": 3})
    save_observation(*files, observation, knowledge)
    back, known = load_observation(*files)
    assert list(back.weights) == list(back.update) == ["z", "a", "m"]
    assert all(torch.equal(back.update[name], value) for name, value in observation.update.items())
    assert (back.kind, back.mode, back.model, back.trials) == ("delta", "train", observation.model, (0, 1, 2, 3))
    assert known == knowledge
    assert set(read_tensors(files[0])) == {f"{part}/{name}" for part in ("weights", "update") for name in "zam"}


def test_a_withheld_fact_is_never_written(observation, files):
    with pytest.raises(UserError, match="does not grant labels"):
        save_observation(*files, observation, Knowledge("honest-but-curious", {"labels": [[1]]}))
    assert not files[0].exists()


def test_truth_comes_back(files):
    truth = Truth(torch.rand(2, 1, 1, 4, 4), torch.tensor([[1], [2]]), torch.rand(2, 3), ({"image": 5, "draw": 0},) * 2)
    save_truth(*files, truth)
    back = load_truth(*files)
    assert torch.equal(back.images, truth.images)
    assert torch.equal(back.rates, truth.rates)
    assert back.trials == truth.trials


def test_parts_keep_their_trial_numbers(observation):
    part = observation.select([1, 3]).select([1])
    assert part.trials == (3,)
    assert torch.equal(part.update["z"], observation.update["z"][3:])


def test_update_and_weights_have_to_name_the_same(observation):
    with pytest.raises(UserError, match="different parameters"):
        Observation(observation.weights, {}, "delta", "eval", {}, ())


def test_a_delta_becomes_the_gradient_that_the_server_infers(observation):
    knowledge = Knowledge("honest-but-curious", {"nominal_rate": 0.5, "local_steps": 4})
    gradient = observation.as_gradient(knowledge)
    assert gradient.kind == "gradient"
    assert torch.allclose(gradient.update["z"], -observation.update["z"] / 2)
    assert torch.equal(observation.as_direction().update["z"], -observation.update["z"])
    assert gradient.as_gradient(Knowledge("blind-rate", {})) is gradient


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_is_never_written(observation, files, value):
    observation.update["a"][3, 1] = value
    with pytest.raises(UserError, match=r"not finite \(parameter a\).*lower the rate"):
        save_observation(*files, observation, Knowledge("blind-rate", {}))
    assert not files[0].exists()
