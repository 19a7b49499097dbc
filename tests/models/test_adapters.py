"""Adapters between frozen layers: where they stand, that they change the logits, and that the rest never moves."""

import pytest
import torch

from leaklab.models.adapted import StillBatchNorm2d, is_frozen
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.models.published import published_state
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

torch.set_num_threads(1)
VIT = {"patch": 4, "width": 16, "blocks": 2, "heads": 2, "reduction": 4}
MODELS = [("resnet-small-adapted", {}), ("vit-adapted", VIT), ("resnet-18-adapted", {"side": 32, "stem": "cifar"})]
SHAPE = (3, 8, 8)


def network_of(name, settings, shape=SHAPE, **more):
    return plugins.load("models", name, {**settings, **more}).initialised(shape, 5, 0, torch.float64)


def plain_of(name, settings, shape=SHAPE):
    own = {key: value for key, value in settings.items() if key not in ("reduction", "tuning")}
    if name == "resnet-18-adapted":
        own.pop("side")
    return plugins.load("models", name.removesuffix("-adapted"), own).build(shape, 5)


def adapters_of(network):
    return {n: v.clone() for n, v in network.state_dict().items() if not is_frozen(n) and not n.startswith("fc.")}


@pytest.mark.parametrize(("name", "settings"), MODELS)
def test_the_frozen_tensors_are_those_of_the_plain_network_and_only_its_head_is_missing(name, settings):
    network, plain = network_of(name, settings), plain_of(name, settings).state_dict()
    frozen = {key: value.shape for key, value in network.state_dict().items() if is_frozen(key)}
    assert frozen == {key: value.shape for key, value in plain.items() if not key.startswith("fc.")}
    assert adapters_of(network)
    assert not adapters_of(network_of(name, settings, tuning="fixed"))
    assert list(network.state_dict())[-1] == "fc.bias"  # what algorithms take for the classifier


@pytest.mark.parametrize(("name", "settings"), MODELS)
def test_generated_adapters_change_the_logits_and_adapters_at_zero_are_none(name, settings):
    """With the last layer of each adapter at zero logits are those of the backbone alone; generated ones differ."""
    network, bare = network_of(name, settings).eval(), network_of(name, settings, tuning="fixed").eval()
    bare.load_state_dict({key: network.state_dict()[key] for key in bare.state_dict()}, strict=True)
    network, bare = network.requires_grad_(False), bare.requires_grad_(False)
    images = stream(1, "images").normal(4, *SHAPE)
    first = {key: value for key, value in adapters_of(network).items() if "running" not in key}
    zero = {key: torch.zeros_like(value) for key, value in first.items() if ".conv." in key or ".up." in key}
    network.load_state_dict(zero, strict=False)
    near = {"rtol": 0, "atol": 1e-3} if "resnet" in name else {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(network(images), bare(images), **near)  # norms divide by sqrt(1 + 1e-5)
    maker = Hypernetwork(embedding=8, hidden=16)
    weights = maker.first_weights(first, stream(2, "start"))
    made = [maker(weights, maker.first_embedding(stream(k, "v"), images)) for k in (0, 1)]
    assert sorted(made[0]) == sorted(first)
    logits = []
    for own in made:
        network.load_state_dict(own, strict=False)
        logits.append(network(images))
    scale = float(bare(images).abs().max())
    assert float((logits[0] - bare(images)).abs().max()) > 0.01 * scale
    assert float((logits[0] - logits[1]).abs().max()) > 1e-3 * scale


def test_frozen_norms_keep_their_statistics_in_training_and_adapters_use_the_batch():
    network = network_of("resnet-small-adapted", {}).train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    network(3 + stream(0, "images").normal(6, *SHAPE))
    moved = {key for key, value in network.state_dict().items() if not torch.equal(value, before[key])}
    norms = [f"adapter{stage}.norm{n}.running_" for stage in (1, 2, 3) for n in (1, 2)]
    assert moved == {norm + what for norm in norms for what in ("mean", "var")}
    assert {layer.training for layer in network.modules() if isinstance(layer, StillBatchNorm2d)} == {False}


def test_gray_images_are_seen_three_times_and_enlarged():
    network = network_of("resnet-small-adapted", {}, shape=(1, 7, 9), side=8).eval()
    coloured = network_of("resnet-small-adapted", {}, shape=SHAPE).eval()
    gray = stream(0, "gray").normal(2, 1, 7, 9)
    large = torch.nn.functional.interpolate(gray, size=(8, 8), mode="bilinear")
    torch.testing.assert_close(network(gray), coloured(large.expand(-1, 3, -1, -1)))
    with pytest.raises(UserError, match="of 3 channels takes images of as many or of one, not of 4"):
        network_of("resnet-small-adapted", {}, shape=(4, 8, 8))


def test_the_published_resnet_is_the_frozen_part_and_classifies_as_before():
    """ResNet-20 of the mirror, strictly: with adapters at zero and its own head the logits are those published."""
    try:
        state = published_state("resnet20-cifar10")
    except UserError as error:
        pytest.skip(str(error))
    plain = plugins.load("models", "resnet-small", {"blocks": 3}).build((3, 32, 32), 10)
    plain.load_state_dict(state, strict=True)
    network = plugins.load("models", "resnet-small-adapted", {"blocks": 3}).initialised((3, 32, 32), 10, 0)
    assert {key for key in network.state_dict() if is_frozen(key)} == {k for k in state if not k.startswith("fc.")}
    zero = {key: torch.zeros_like(value) for key, value in adapters_of(network).items() if ".conv." in key}
    network.load_state_dict({**state, **zero}, strict=False)
    images = stream(0, "images").normal(3, 3, 32, 32).float()
    torch.testing.assert_close(network.eval()(images), plain.eval()(images), rtol=0, atol=2e-2)
