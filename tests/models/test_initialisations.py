"""Initial weights follow their law, layer by layer."""

import pytest
import torch
from torch import nn

from leaklab.models.initialisations import initialise
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def drawn(scheme, layer):
    initialise(nn.Sequential(layer), stream(0, "weights"), scheme)
    return layer.weight.detach().double(), layer.bias.detach().double()


@pytest.mark.parametrize(("scheme", "half_width"), [("pytorch", 1 / 25**0.5), ("wide", 0.5)])
@pytest.mark.parametrize("layer", [lambda: nn.Conv2d(1, 2000, 5), lambda: nn.Linear(25, 2000)])
def test_weights_and_biases_are_uniform(scheme, half_width, layer):
    for values in drawn(scheme, layer()):
        assert values.abs().max() <= half_width
        assert values.abs().max() > 0.99 * half_width
        assert float(values.mean()) == pytest.approx(0, abs=0.05 * half_width)
        assert float(values.var()) == pytest.approx(half_width**2 / 3, rel=0.05)


def test_grouped_convolutions_count_their_own_inputs_only():
    weight, _ = drawn("pytorch", nn.Conv2d(40, 400, 5, groups=40))
    assert weight.abs().max() > 0.99 / 5


def test_layers_without_a_rule_are_refused():
    with pytest.raises(UserError, match=r"layer '0' \(BatchNorm2d\) has no initialisation"):
        initialise(nn.Sequential(nn.BatchNorm2d(3)), stream(0), "pytorch")


def test_unknown_schemes_are_refused():
    with pytest.raises(UserError, match="choose from pytorch, wide"):
        initialise(nn.Linear(1, 1), stream(0), "xavier")


def test_a_single_layer_is_a_module_too():
    layer = nn.Linear(3, 2)
    initialise(layer, stream(0), "wide")
    expected = stream(0)
    assert torch.equal(layer.weight.double(), (expected.uniform(2, 3) - 0.5).float().double())
