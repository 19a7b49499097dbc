"""The published generator of digits: its layers by hand; a published classifier sees digits in what it draws."""

import hashlib
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from leaklab.data import download
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.published import read_torch
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MIRROR = os.environ.get("LEAKLAB_MIRROR")
SHAPE, CLASSES = (1, 28, 28), 10
SIZES = {"0": (64, 256), "2": (256, 256), "4": (256, 784)}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Write small random weights with the published names where the catalog looks for them."""
    draws = stream(0, "weights")
    state = {}
    for layer, (inputs, outputs) in SIZES.items():
        state[f"{layer}.weight"] = (draws.normal(outputs, inputs) / inputs**0.5).float()
        state[f"{layer}.bias"] = draws.normal(outputs).float()
    folder = tmp_path / "weights/mnist_generators"
    folder.mkdir(parents=True)
    path = folder / "mnist_gan_mlp_G--300.ckpt"
    torch.save(state, path)
    entries = download.read_yaml(download.REGISTRY)
    entries["mnist-gan"]["files"] = [
        {"path": "mnist_generators/mnist_gan_mlp_G--300.ckpt", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    ]
    monkeypatch.setattr(download, "read_yaml", lambda _: entries)
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
    return state


def architecture():
    return plugins.load("models/generators", "mnist-gan", {})


def test_images_are_those_of_the_layers_by_hand(published):
    latents = stream(1, "latents").normal(5, 64).float()
    images = architecture().pretrained().generate(latents, torch.eye(10)[:5])
    values = latents.double()
    for layer in ("0", "2"):
        values = (values @ published[f"{layer}.weight"].double().T + published[f"{layer}.bias"].double()).clamp(min=0)
    values = (values @ published["4.weight"].double().T + published["4.bias"].double()).tanh()
    assert images.shape == (5, *SHAPE)
    torch.testing.assert_close(images.double().flatten(1), (values + 1) / 2, rtol=0, atol=1e-6)
    assert 0 <= float(images.min()) < float(images.max()) <= 1


@pytest.mark.usefixtures("published")
def test_it_knows_no_classes():
    latents = stream(1, "latents").normal(3, 64).float()
    generator = architecture().pretrained()
    first, second = (generator.generate(latents, torch.eye(10)[rows]) for rows in ([0, 1, 2], [7, 7, 7]))
    assert torch.equal(first, second)


@pytest.mark.usefixtures("published")
def test_it_is_written_and_read_again(tmp_path):
    generator = architecture().pretrained()
    save_generator(tmp_path / "generator.safetensors", generator, "mnist-gan", {})
    again, latents = load_generator(tmp_path / "generator.safetensors"), stream(1, "latents").normal(2, 64).float()
    assert torch.equal(again.generate(latents, torch.eye(10)[:2]), generator.generate(latents, torch.eye(10)[:2]))


@pytest.mark.usefixtures("published")
def test_other_images_and_other_weights_are_refused(published, tmp_path):
    with pytest.raises(UserError, match="makes 1x28x28 images of 10 classes, the victim takes 3x32x32"):
        architecture().pretrained().require((3, 32, 32), 10)
    with pytest.raises(UserError, match="makes 1x28x28 images of 10 classes"):
        architecture().generator((1, 28, 28), 47)
    path = tmp_path / "weights/mnist_generators/mnist_gan_mlp_G--300.ckpt"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match="is damaged"):
        architecture().pretrained()


class LeNet5(nn.Sequential):
    """The classifier published beside it, of 32x32 images in [0, 1]."""

    def __init__(self, state):
        layers = [
            nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 120, 5), nn.ReLU(), nn.Flatten(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        ]  # fmt: skip
        super().__init__(*layers)
        own = [layer for layer in self if isinstance(layer, nn.Conv2d | nn.Linear)]
        names = ("convnet.c1", "convnet.c3", "convnet.c5", "fc.f6", "fc.f7")
        for layer, name in zip(own, names, strict=True):
            layer.load_state_dict({part: state[f"{name}.{part}"] for part in ("weight", "bias")})


@pytest.mark.mirror
@pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: no weights to test with")
def test_a_published_classifier_sees_all_digits_in_what_it_draws():
    """It has 99 % on MNIST; a wrong activation or scale would leave noise, of which it is sure of nothing."""
    classifier = LeNet5(read_torch(Path(MIRROR) / "weights/mnist_generators/mnist_lenet5_epoch12.pth"))
    latents = stream(0, "latents").normal(500, 64).float()
    with torch.no_grad():
        images = architecture().pretrained().generate(latents, torch.eye(10)[[0] * 500])
        sure, digits = classifier(nn.functional.pad(images, (2, 2, 2, 2))).softmax(1).max(1)
    assert float(sure.median()) > 0.9
    assert set(digits.tolist()) == set(range(10))
