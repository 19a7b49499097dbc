"""BigGAN-deep against a slow plain version, on small random files with the published names."""

import hashlib
from math import prod

import pytest
import torch
from torch.nn import functional as F

from leaklab.data import download as weights
from leaklab.models.generators import biggan
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.biggan import LAYOUTS, BigGanDeep, BigGanDeepGenerator, Layout, load_biggan_deep
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import write_tensors
from leaklab.records.streams import stream

# at 4 pixels 32 channels, at 8 pixels 16 and attention, at 16 pixels 8
SMALL = Layout((4, 2, 1), attention_side=8, width=8, latent_size=5, embedding=3, num_classes=7)
BLOCKS = {0: (32, 32), 1: (32, 16), 3: (16, 16), 4: (16, 8)}
DOUBLING = (1, 4)
ATTENTION = 2
CONDITION = 8
STATISTICS = 51


def published(seed=0):
    """Return random weights with the names and shapes of the published state dict, written out by hand."""
    draws = stream(seed, "weights")
    found = {"embeddings.weight": draws.normal(3, 7)}

    def kernel(name, *shape, bias=True):
        matrix = draws.normal(*shape)
        right = draws.normal(prod(shape[1:]))
        for _ in range(20):  # close to the largest singular value, as after a training
            left = F.normalize(matrix.flatten(1) @ right, dim=0)
            right = F.normalize(matrix.flatten(1).T @ left, dim=0)
        parts = {"weight_orig": matrix, "weight_u": left, "weight_v": right}
        found.update({f"generator.{name}.{part}": value for part, value in parts.items()})
        if bias:
            found[f"generator.{name}.bias"] = 0.3 * draws.normal(shape[0])

    def statistics(name, channels):
        found[f"generator.{name}.running_means"] = 0.3 * draws.normal(STATISTICS, channels)
        found[f"generator.{name}.running_vars"] = 0.5 + draws.uniform(STATISTICS, channels)

    kernel("gen_z", 16 * 32, CONDITION)
    for number, (inputs, outputs) in BLOCKS.items():
        inner = inputs // 4
        sizes = [(inner, inputs, 1, 1), (inner, inner, 3, 3), (inner, inner, 3, 3), (outputs, inner, 1, 1)]
        for place, size in enumerate(sizes):
            kernel(f"layers.{number}.bn_{place}.scale", size[1], CONDITION, bias=False)
            kernel(f"layers.{number}.bn_{place}.offset", size[1], CONDITION, bias=False)
            statistics(f"layers.{number}.bn_{place}", size[1])
            kernel(f"layers.{number}.conv_{place}", *size)
    for part, size in {"theta": (2, 16), "phi": (2, 16), "g": (8, 16), "o_conv": (16, 8)}.items():
        kernel(f"layers.{ATTENTION}.snconv1x1_{part}", *size, 1, 1, bias=False)
    found[f"generator.layers.{ATTENTION}.gamma"] = torch.tensor([0.7])
    statistics("bn", 8)
    found["generator.bn.weight"], found["generator.bn.bias"] = draws.normal(8), draws.normal(8)
    kernel("conv_to_rgb", 8, 8, 3, 3)
    return {name: value.float() for name, value in found.items()}


class Plain:
    """The same images from the published tensors, one by one and in float64."""

    def __init__(self, found, row):
        self.found = {name.removeprefix("generator."): value.double() for name, value in found.items()}
        self.row = row

    def kernel(self, name):
        matrix, left, right = (self.found[f"{name}.weight_{part}"] for part in ("orig", "u", "v"))
        return matrix / (left @ matrix.flatten(1) @ right)

    def norm(self, name, values):
        mean, variance = (self.found[f"{name}.running_{part}"][self.row] for part in ("means", "vars"))
        return (values - mean[:, None, None]) / (variance[:, None, None] + 1e-4).sqrt()

    def convolution(self, name, values):
        kernel, bias = self.kernel(name), self.found.get(f"{name}.bias")
        return F.conv2d(values[None], kernel, bias, padding=kernel.shape[-1] // 2)[0]

    def block(self, number, values, condition):
        inner = values
        for place in range(4):
            name = f"layers.{number}.bn_{place}"
            factor, shift = 1 + self.kernel(f"{name}.scale") @ condition, self.kernel(f"{name}.offset") @ condition
            inner = (self.norm(name, inner) * factor[:, None, None] + shift[:, None, None]).clamp(min=0)
            if place == 1 and number in DOUBLING:
                inner = twice(inner)
            inner = self.convolution(f"layers.{number}.conv_{place}", inner)
        shortcut = values[: len(inner)]
        return inner + (twice(shortcut) if number in DOUBLING else shortcut)

    def attention(self, values):
        theta, phi, content = (self.convolution(f"layers.2.snconv1x1_{p}", values) for p in ("theta", "phi", "g"))
        halves = [torch.stack([m[:, i : i + 2, j : j + 2].amax((1, 2)) for i in (0, 2, 4, 6) for j in (0, 2, 4, 6)])
                  for m in (phi, content)]  # fmt: skip
        read = torch.zeros_like(content)
        for i in range(8):
            for j in range(8):
                shares = (halves[0] @ theta[:, i, j]).exp()
                read[:, i, j] = (shares / shares.sum()) @ halves[1]
        return values + self.found["layers.2.gamma"] * self.convolution("layers.2.snconv1x1_o_conv", read)

    def image(self, latent, classes):
        condition = torch.cat([latent, self.found["embeddings.weight"] @ classes])
        numbers = self.kernel("gen_z") @ condition + self.found["gen_z.bias"]
        values = torch.stack([numbers[channel::32].view(4, 4) for channel in range(32)])
        for number in range(5):
            values = self.attention(values) if number == ATTENTION else self.block(number, values, condition)
        weight, bias = (self.found[f"bn.{name}"][:, None, None] for name in ("weight", "bias"))
        colors = self.convolution("conv_to_rgb", (self.norm("bn", values) * weight + bias).clamp(min=0))
        return (colors[:3].tanh() + 1) / 2


def twice(values):
    return values.repeat_interleave(2, 1).repeat_interleave(2, 2)


def draw(n):
    classes = stream(2, "classes").uniform(n, 7)
    return stream(1, "latents").normal(n, 5), classes / classes.sum(1, keepdim=True)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("biggan") / "small.safetensors"
    write_tensors(path, published())
    return path


@pytest.fixture
def generator(file):
    return load_biggan_deep(file, SMALL)


@pytest.mark.parametrize(("truncation", "row"), [(1.0, 50), (0.58, 29), (0.02, 1)])
def test_images_are_those_of_the_plain_version(file, truncation, row):
    generator = load_biggan_deep(file, SMALL, truncation=truncation).double()
    latents, classes = draw(3)
    plain = torch.stack([Plain(published(), row).image(*pair) for pair in zip(latents, classes, strict=True)])
    images = generator.generate(latents, classes)
    assert images.shape == (3, 3, 16, 16)
    assert float(plain.std()) > 0.1
    assert torch.allclose(images, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", [16, 14, 8, 1])
def test_images_are_shrunk_by_area_within_the_unit_range(file, generator, side):
    latents, classes = draw(4)
    latents = 5 * latents
    whole = generator.generate(latents.float(), classes.float())
    images = load_biggan_deep(file, SMALL, side).generate(latents.float(), classes.float())
    assert images.shape == (4, 3, side, side)
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1
    assert torch.allclose(images, F.adaptive_avg_pool2d(whole, side), atol=1e-6)
    if side == 8:
        assert torch.allclose(images, whole.unflatten(3, (8, 2)).unflatten(2, (8, 2)).mean((3, 5)), atol=1e-6)


def test_gradients_reach_latents_and_classes(generator):
    generator.double()
    latents, classes = (value.requires_grad_() for value in draw(2))

    def score():
        return (generator.generate(latents, classes) * weights_of_pixels).sum()

    weights_of_pixels = stream(4, "pixels").normal(2, 3, 16, 16)
    slopes = torch.autograd.grad(score(), (latents, classes))
    for value, slope in zip((latents, classes), slopes, strict=True):
        direction = stream(5, "direction").normal(*value.shape)
        with torch.no_grad():
            value += 1e-6 * direction
            above = score()
            value -= 2e-6 * direction
            numeric = (above - score()) / 2e-6
            value += 1e-6 * direction
        assert float((slope * direction).sum()) == pytest.approx(float(numeric), rel=1e-4)
        assert bool((slope.abs().sum(1) > 0).all())


def test_each_image_is_made_alone_and_the_class_matters(generator):
    generator.double()
    latents, classes = draw(5)
    together = generator.generate(latents, classes)
    alone = torch.cat([generator.generate(latents[i : i + 1], classes[i : i + 1]) for i in range(5)])
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)
    other = generator.generate(latents, classes.roll(1, 1))
    assert float((together - other).abs().amax((1, 2, 3)).min()) > 1e-3
    generator.require_frozen()
    assert not any(parameter.requires_grad for parameter in generator.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"side": 17}, "makes images of 1 to 16 pixels, not 17"),
        ({"side": 0}, "makes images of 1 to 16 pixels, not 0"),
        ({"truncation": 0.0}, "truncation lies within"),
        ({"truncation": 1.1}, "truncation lies within"),
        ({"truncation": float("nan")}, "truncation lies within"),
    ],
)
def test_impossible_settings_are_refused(file, settings, message):
    with pytest.raises(UserError, match=message):
        load_biggan_deep(file, SMALL, **settings)


@pytest.mark.parametrize(
    ("latents", "classes", "message"),
    [
        ((2, 6), (2, 7), r"takes latents \[N, 5\], not \[2, 6\]"),
        ((2, 5), (2, 8), r"probabilities \[2, 7\], not \[2, 8\]"),
    ],
)
def test_wrong_sizes_are_refused(generator, latents, classes, message):
    with pytest.raises(UserError, match=message):
        generator.generate(torch.zeros(latents), torch.zeros(classes))
    with pytest.raises(UserError, match="makes 3x16x16 images of 7 classes"):
        generator.require((3, 224, 224), 1000)


@pytest.mark.parametrize(
    ("resolution", "millions", "path"),
    [
        (128, 50.4, [16, 16, 16, 16, 8, 8, 4, 4, "attention 256", 2, 2, 1]),
        (256, 55.9, [16, 16, 16, 16, 8, 8, 8, 8, "attention 512", 4, 4, 2, 2, 1]),
        (512, 56.2, [16, 16, 16, 16, 8, 8, 8, 8, "attention 512", 4, 4, 2, 2, 1, 1, 1]),
    ],
)
def test_published_layouts(resolution, millions, path):
    """Parameters as published; input channels of each block as in the paper's tables 7 to 9, in multiples of 128."""
    with torch.device("meta"):
        network = BigGanDeepGenerator(LAYOUTS[resolution])
    found = [
        layer.conv_0.in_channels // 128 if hasattr(layer, "conv_0") else f"attention {layer.snconv1x1_g.in_channels}"
        for layer in network.layers
    ]
    assert [*found, network.layers[-1].outputs // 128] == path
    assert round(sum(parameter.numel() for parameter in network.parameters()) / 1e6, 1) == millions
    assert network.image_shape == (3, resolution, resolution)
    assert [network.gen_z.in_features, network.gen_z.out_features] == [256, 4 * 4 * 16 * 128]


def test_the_plug_in_loads_what_the_registry_names(file, tmp_path, monkeypatch):
    registry = tmp_path / "weights.yaml"
    entry = "biggan-deep-128:\n  {{title: t, licence: l, citation: c, files: [{{path: {}, sha256: {}}}]}}\n"
    registry.write_text(entry.format(file.name, hashlib.sha256(file.read_bytes()).hexdigest()))
    monkeypatch.setattr(weights, "REGISTRY", registry)
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / file.name).write_bytes(file.read_bytes())
    monkeypatch.setitem(biggan.LAYOUTS, 128, SMALL)
    generator = plugins.load("models/generators", "biggan-deep", {"resolution": 128, "side": 14}).pretrained()
    latents, classes = (value.float() for value in draw(2))
    assert torch.equal(
        generator.generate(latents, classes), load_biggan_deep(file, SMALL, 14).generate(latents, classes)
    )
    with pytest.raises(UserError, match="no weights 'biggan-deep-256'"):
        BigGanDeep().pretrained()
    with pytest.raises(UserError, match="no resolution 64: choose from 128, 256, 512"):
        BigGanDeep(resolution=64)


def test_a_saved_copy_is_the_same_generator(tmp_path, monkeypatch):
    """What the training step leaves of a published generator is what an attack reads."""
    monkeypatch.setitem(LAYOUTS, 128, SMALL)
    write_tensors(tmp_path / "published.safetensors", published())
    generator = load_biggan_deep(tmp_path / "published.safetensors", SMALL, side=8)
    settings = {"resolution": 128, "side": 8}
    save_generator(tmp_path / "generator.safetensors", generator, "biggan-deep", settings)
    loaded = load_generator(tmp_path / "generator.safetensors")
    loaded.require_frozen()
    latents, classes = stream(0, "z").normal(3, 5).float(), F.one_hot(torch.arange(3), 7).float()
    assert torch.equal(loaded.generate(latents, classes), generator.generate(latents, classes))
    with pytest.raises(UserError, match="the generator makes 3x8x8 images of 7 classes"):
        BigGanDeep(**settings).generator((3, 16, 16), 7)
