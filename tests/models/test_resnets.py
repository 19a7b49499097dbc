"""Residual networks: torchvision's function, published parameter counts and a published accuracy."""

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from leaklab.data.download import describe_weights, weights_path
from leaklab.data.readers.cifar import CifarStrips
from leaklab.models.base import describe
from leaklab.models.published import with_published
from leaklab.models.resnets import PaddedShortcut, ResNet18, SmallResNet
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MIRROR = os.environ.get("LEAKLAB_MIRROR")
CIFAR = (3, 32, 32)


def build(name, input_shape=CIFAR, classes=10, **settings):
    return plugins.load("models", name, settings).initialised(input_shape, classes, seed=0, dtype=torch.float64)


def count(network):
    return sum(parameter.numel() for parameter in network.parameters())


def torchvisions(stem):
    """Return torchvision's ResNet-18; for CIFAR with the stem that everybody puts there."""
    with torch.random.fork_rng():
        reference = torchvision.models.resnet18(num_classes=10)
        if stem == "cifar":
            reference.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
            reference.maxpool = nn.Identity()
    return reference.double()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_resnet_18_is_torchvisions_function(stem, training):
    ours, reference = build("resnet-18", stem=stem), torchvisions(stem)
    state = ours.state_dict() | {"bn1.running_mean": stream(0, "mean").normal(64)}
    ours.load_state_dict(state, strict=True)
    reference.load_state_dict(dict(state), strict=False)
    images = stream(0, "images").normal(2, *CIFAR)
    assert torch.equal(ours.train(training)(images), reference.train(training)(images))
    for name, value in ours.state_dict().items():
        assert torch.equal(value, reference.state_dict()[name]), name


def test_weights_of_torchvision_load_strictly():
    ours = build("resnet-18", stem="imagenet")
    ours.load_state_dict(torchvisions("imagenet").state_dict(), strict=True)
    assert all("num_batches_tracked" not in name for name in ours.state_dict())


@pytest.mark.parametrize(
    ("name", "settings", "published"),
    [
        ("resnet-18", {}, 11_173_962),
        ("resnet-18", {"stem": "imagenet"}, 11_181_642),
        ("resnet-152", {}, 58_156_618),
        ("resnet-small", {"blocks": 3}, 269_722),
        ("resnet-small", {"blocks": 5}, 464_154),
    ],
)
def test_parameter_counts(name, settings, published):
    network = plugins.load("models", name, settings).build(CIFAR, 10)
    assert count(network) == published


def test_the_smallest_residual_network_has_eight_layers():
    network = plugins.load("models", "resnet-small").build(CIFAR, 10)
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in network.modules()) == 8
    assert count(network) == 75_290


def test_the_padded_shortcut_thins_out_pixels_and_adds_empty_channels():
    values = stream(0, "values").normal(2, 3, 5, 4)
    short = PaddedShortcut(stride=2, new_channels=3)(values)
    assert short.shape == (2, 6, 3, 2)
    assert torch.equal(short[:, 1:4], values[:, :, [0, 2, 4]][..., [0, 2]])
    assert not short[:, [0, 4, 5]].any()
    assert not list(PaddedShortcut(2, 3).parameters())


def test_values_stay_channels_last():
    network = build("resnet-small", width=4).to(memory_format=torch.channels_last)
    values = stream(0, "images").normal(2, *CIFAR).contiguous(memory_format=torch.channels_last)
    for name, layer in network.named_children():
        values = layer(values)
        assert values.dim() < 4 or values.is_contiguous(memory_format=torch.channels_last), name


def test_convolutions_start_with_he_and_the_affine_layer_as_torch_does():
    network = build("resnet-18", classes=1000)
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Conv2d):
            expected = (2 / (layer.out_channels * layer.kernel_size[0] ** 2)) ** 0.5
            assert float(layer.weight.detach().std()) == pytest.approx(expected, rel=0.05), name
    assert float(network.fc.weight.detach().abs().max()) == pytest.approx(512**-0.5, rel=1e-3)


def test_a_matching_loss_can_be_differentiated_through_the_blocks():
    network = build("resnet-small", width=4).eval()
    image = stream(0, "image").normal(1, *CIFAR).requires_grad_()

    def matching(x):
        loss = F.cross_entropy(network(x), torch.tensor([3]))
        return sum((g**2).sum() for g in torch.autograd.grad(loss, list(network.parameters()), create_graph=True))

    (slope,) = torch.autograd.grad(matching(image), image)
    direction = stream(0, "direction").normal(*image.shape)
    step = 1e-7 * direction
    numeric = (matching(image + step) - matching(image - step)) / 2e-7
    assert float((slope * direction).sum()) == pytest.approx(float(numeric.detach()), rel=1e-4)


def test_blocks_are_rows_of_a_description():
    network = plugins.load("models", "resnet-small").build(CIFAR, 10)
    rows = {row["layer"]: row for row in describe(network, CIFAR)}
    assert [rows[f"layer{stage}"]["output_shape"] for stage in (1, 2, 3)] == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]
    assert sum(row["parameters"] for row in rows.values()) == count(network)


@pytest.mark.parametrize(
    ("plugin", "settings", "message", "hint"),
    [
        (ResNet18, {"stem": "mnist"}, "stem: Input should be 'cifar' or 'imagenet'", "set stem to cifar or imagenet"),
        (SmallResNet, {"blocks": 0}, "blocks: Input should be greater than or equal to 1, not 0", "raise blocks or"),
        (SmallResNet, {"width": 0}, "width: Input should be greater than or equal to 1, not 0", "raise blocks or"),
    ],
)
def test_impossible_settings_are_refused(plugin, settings, message, hint):
    with pytest.raises(UserError, match=message):
        plugins.load("models", "resnet-18" if plugin is ResNet18 else "resnet-small", settings)
    with pytest.raises(UserError, match=hint):
        plugin(**settings).build(CIFAR, 10)


@pytest.mark.mirror
@pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: no weights to test with")
@pytest.mark.parametrize(
    ("name", "blocks", "parameters", "accuracy"),
    [("resnet20-cifar10", 3, 269_722, 0.9173), ("resnet56-cifar10", 9, 853_018, 0.9339)],
)
def test_a_published_resnet_has_its_accuracy(name, blocks, parameters, accuracy):
    """Of all test images; of the first 500, within three standard deviations of a binomial law."""
    weights = describe_weights(name)
    network = plugins.load("models", "resnet-small", {"blocks": blocks}).build(CIFAR, 10)
    network = with_published(network, weights_path(name), weights.renamed).eval()
    assert sum(value.numel() for value in network.parameters()) == parameters
    mean, std = (torch.tensor(values)[:, None, None] for values in (weights.mean, weights.std))
    tar = Path(MIRROR) / "data/CIFAR10/test_batch.tar"
    samples = CifarStrips().read({"train_1": tar, "test_1": tar})
    images, labels = torch.tensor(samples.test_images[:500]), torch.tensor(samples.test_labels[:500])
    with torch.no_grad():
        predicted = network((images / 255 - mean) / std).argmax(1)
    spread = (accuracy * (1 - accuracy) / 500) ** 0.5
    assert float((predicted == labels).double().mean()) == pytest.approx(accuracy, abs=3 * spread)
