"""Initial weights follow their law, layer by layer."""

import pytest
import torch
from torch import nn

from leaklab.models.published import initialise
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


@pytest.mark.parametrize("groups", [1, 4])
def test_he_keeps_the_variance_of_what_flows_back(groups):
    layer = nn.Conv2d(40, 400, 5, groups=groups)
    weight, bias = drawn("he", layer)
    variance = 2 / (400 * 25 / groups)
    assert float(weight.mean()) == pytest.approx(0, abs=0.02 * variance**0.5)
    assert float(weight.var()) == pytest.approx(variance, rel=0.03)
    assert float((weight**4).mean()) == pytest.approx(3 * variance**2, rel=0.05)
    assert not bias.any()


def test_he_is_torchs_own_law_for_convolutions_and_leaves_affine_layers_as_they_are():
    layer = nn.Conv2d(64, 128, 3, bias=False)
    initialise(layer, stream(0), "he")
    reference = nn.init.kaiming_normal_(torch.empty_like(layer.weight), mode="fan_out", nonlinearity="relu",
                                        generator=torch.Generator().manual_seed(0))  # fmt: skip
    assert float(layer.weight.detach().std()) == pytest.approx(float(reference.detach().std()), rel=0.02)
    assert all(torch.equal(*pair) for pair in zip(drawn("he", nn.Linear(9, 3)), drawn("pytorch", nn.Linear(9, 3)),
                                                  strict=True))  # fmt: skip


@pytest.mark.parametrize("scheme", ["pytorch", "wide", "he"])
def test_batch_normalisation_starts_as_the_identity_and_draws_nothing(scheme):
    norm = nn.BatchNorm2d(3)
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        values.detach().fill_(7.0)
    network = nn.Sequential(norm, nn.Conv2d(3, 2, 1, bias=False))
    initialise(network, stream(0), scheme)
    assert norm.weight.tolist() == norm.running_var.tolist() == [1, 1, 1]
    assert norm.bias.tolist() == norm.running_mean.tolist() == [0, 0, 0]
    alone = nn.Conv2d(3, 2, 1, bias=False)
    initialise(alone, stream(0), scheme)
    assert torch.equal(network[1].weight, alone.weight)


@pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.BatchNorm1d(3, affine=False)])
def test_layers_without_a_rule_are_refused(layer):
    with pytest.raises(UserError, match=rf"layer '0' \({type(layer).__name__}\) has no initialisation"):
        initialise(nn.Sequential(layer), stream(0), "pytorch")


def test_unknown_schemes_are_refused():
    with pytest.raises(UserError, match="choose from pytorch, wide, he"):
        initialise(nn.Linear(1, 1), stream(0), "xavier")


def test_a_single_layer_is_a_module_too():
    layer = nn.Linear(3, 2)
    initialise(layer, stream(0), "wide")
    expected = stream(0)
    assert torch.equal(layer.weight.double(), (expected.uniform(2, 3) - 0.5).float().double())
