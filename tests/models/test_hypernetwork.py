"""How a hypernetwork starts, what it generates, and what it refuses."""

import pytest
import torch
from torch.testing import assert_close

from leaklab.models import hypernetwork
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, Hypernetwork, generated_names
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

NETWORK = plugins.load("models", "cnn-leaky").initialised((1, 16, 16), 10, 0, torch.float64).state_dict()


def started(start, seeds=range(30), **settings):
    """Return what a network begins with, for many hypernetworks: by name, [seeds, ...]."""
    generate = Hypernetwork(8, 64, start=start, **settings)
    found = []
    for seed in seeds:
        draws = stream(seed, "start")
        found.append(
            generate(generate.first_weights(NETWORK, draws), generate.first_embedding(draws, NETWORK["fc1.bias"]))
        )
    return {name: torch.stack([one[name] for one in found]) for name in found[0]}


def test_generated_tensors_have_the_names_and_shapes_of_the_network():
    found = started("biases", range(1))
    assert list(found) == sorted(NETWORK)
    assert all(found[name].shape[1:] == value.shape for name, value in NETWORK.items())


def test_under_biases_all_begin_near_the_usual_first_weights():
    found = started("biases", spread=0.1)
    for name in ("conv1.weight", "fc1.weight"):
        usual = NETWORK[name]
        assert_close(found[name].mean(0), usual, rtol=0, atol=0.1 * float(usual.std()))
        assert float((found[name] - usual).std() / usual.std()) == pytest.approx(0.1, rel=0.2)


def test_under_weights_the_spread_is_the_usual_one_and_the_mean_nothing():
    found = started("weights")
    for name in ("conv2.weight", "fc1.weight"):
        assert float(found[name].std() / NETWORK[name].std()) == pytest.approx(1, rel=0.2)
        assert float(found[name].mean(0).abs().mean() / NETWORK[name].std()) < 0.3


def test_under_pytorch_the_layers_start_as_torch_starts_them():
    weights = Hypernetwork(8, 64, start="pytorch").first_weights(NETWORK, stream(0, "start"))
    for name, fan_in in ((HIDDEN, 8), (HEADS + "fc1.weight", 64)):
        for kind in (WEIGHT, BIAS):
            value = weights[name + kind]
            assert float(value.abs().max()) <= fan_in**-0.5
            assert float(value.std() * fan_in**0.5) == pytest.approx(3**-0.5, rel=0.15)


def test_names_of_tensors_are_read_off_the_weights():
    weights = Hypernetwork(2, 3).first_weights({"a.weight": torch.ones(2, 2), "a.bias": torch.ones(2)}, stream(0, "s"))
    assert generated_names(weights) == ["a.bias", "a.weight"]
    assert weights[HEADS + "a.weight" + WEIGHT].shape == (2, 2, 3)


def test_what_does_not_fit_is_refused(monkeypatch):
    generate = Hypernetwork(8, 4)
    weights = generate.first_weights(NETWORK, stream(0, "start"))
    with pytest.raises(UserError, match="the embedding has 7 numbers, but the hypernetwork takes 8"):
        generate(weights, torch.ones(7).double())
    with pytest.raises(UserError, match="needs tensors to generate"):
        generate.first_weights({}, stream(0, "start"))
    monkeypatch.setattr(hypernetwork, "memory_bytes", lambda: 10**5)
    with pytest.raises(UserError, match="choose a smaller model or fewer hidden units"):
        generate.first_weights(NETWORK, stream(0, "start"))
