"""ReXNet 1.3 is timm's network with weights from our stream."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

from leaklab.models import resnets
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE = (3, 64, 64)
with_timm = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed: pip install timm")


@with_timm
def test_it_is_timms_function():
    import timm

    ours = plugins.load("models", "rexnet").initialised(SHAPE, 1000, seed=0, dtype=torch.float64)
    with torch.random.fork_rng():
        reference = timm.create_model("rexnet_130").double()
    ours.load_state_dict({name.removeprefix("head."): v for name, v in reference.state_dict().items()}, strict=True)
    images = stream(0, "images").normal(2, *SHAPE)
    assert torch.equal(ours.eval()(images), reference.eval()(images))
    assert sum(parameter.numel() for parameter in ours.parameters()) == 7_557_091


@with_timm
def test_weights_come_from_the_stream_alone():
    before = torch.get_rng_state()
    first, again, other = (plugins.load("models", "rexnet").initialised(SHAPE, 10, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    for name, layer in first.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert torch.equal(layer.weight, again.get_submodule(name).weight)
            assert not torch.equal(layer.weight, other.get_submodule(name).weight)
    assert {name.rsplit(".", 1)[1] for name, _ in first.named_buffers()} == {"running_mean", "running_var"}


@with_timm
def test_grouped_convolutions_start_with_the_fan_out_of_their_own_group():
    network = plugins.load("models", "rexnet").initialised(SHAPE, 10, seed=0)
    kernels = network.features[-2].conv_dw.conv.weight.detach()
    assert kernels.shape[1:] == (1, 3, 3)
    assert float(kernels.std()) == pytest.approx((2 / 9) ** 0.5, rel=0.05)


@with_timm
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_dropout_stands_on_its_own(dropout):
    network = plugins.load("models", "rexnet", {"dropout": dropout}).build(SHAPE, 10)
    places = [name for name, layer in network.named_modules() if isinstance(layer, nn.Dropout)]
    assert places == (["dropout1"] if dropout else [])


def test_without_timm_one_line_says_what_to_do(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named '{name}'", name="timm")

    monkeypatch.setattr(resnets, "import_module", missing)
    with pytest.raises(UserError, match="pip install timm"):
        plugins.load("models", "rexnet").build(SHAPE, 10)
