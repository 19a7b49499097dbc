"""Published weights: what they are folded to, and that nothing else is taken."""

from math import prod

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.models.generators.biggan import LAYOUTS, BigGanDeepGenerator, Layout, load_biggan_deep
from leaklab.models.generators.biggan_weights import at_truncation, slots
from leaklab.records.errors import UserError
from leaklab.records.files import write_tensors
from leaklab.records.streams import stream

SMALL = Layout((4, 2, 1), attention_side=8, width=8, latent_size=5, embedding=3, num_classes=7)
STATISTICS = 51
# of biggan-deep-256-pytorch_model.bin, with names and sizes besides the numbers
PUBLISHED_BYTES = 234_411_737


def wanted(layout):
    """Return the names and shapes of a published file."""
    with torch.device("meta"):
        network = BigGanDeepGenerator(layout)
    return {name: shape for slot in slots(network) for name, shape in slot.wanted().items()}


def published():
    """Return random weights with the published names and shapes (those are held against a list elsewhere)."""
    return {name: (0.1 + stream(0, name).uniform(*shape)).float() for name, shape in wanted(SMALL).items()}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("biggan") / "small.safetensors"
    write_tensors(path, published())
    return path


@pytest.fixture
def generator(file):
    return load_biggan_deep(file, SMALL)


def test_kernels_are_those_of_torchs_spectral_norm(generator):
    found = published()
    stem = "generator.layers.1.conv_2"
    layer = torch.nn.utils.spectral_norm(nn.Conv2d(8, 8, 3)).eval()
    state = {part: found[f"{stem}.{part}"] for part in ("bias", "weight_orig", "weight_u", "weight_v")}
    layer.load_state_dict(state, strict=True)
    images = stream(3, "images").normal(2, 8, 6, 6)
    expected = layer.double()(images)
    folded = generator.double().layers[1].conv_2
    assert torch.allclose(folded.weight, layer.weight, rtol=1e-7, atol=0)
    assert torch.allclose(F.conv2d(images, folded.weight, folded.bias), expected, rtol=0, atol=1e-6)
    assert float((folded.weight - state["weight_orig"]).abs().max()) > 0.1


def test_statistics_lie_linearly_between_the_truncations(file):
    table = published()["generator.bn.running_vars"]
    third = load_biggan_deep(file, SMALL, truncation=(20 + 1 / 3) / 50).bn.running_var
    assert torch.allclose(third, table[20] * 2 / 3 + table[21] / 3, rtol=1e-6, atol=0)
    for row in range(1, STATISTICS):
        assert torch.allclose(at_truncation(table, row / 50), table[row], rtol=1e-6, atol=0)
    assert torch.equal(at_truncation(table, 1.0), table[50])


def test_a_torch_file_gives_the_same_generator(file, tmp_path, generator):
    torch.save(published(), tmp_path / "small.bin")
    # as the published files were written, before torch had its zip format
    torch.save(published(), tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    state = torch.get_rng_state()
    for name in ("small.bin", "old.bin"):
        other = load_biggan_deep(tmp_path / name, SMALL)
        assert all(torch.equal(value, other.state_dict()[key]) for key, value in generator.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generator.conv_to_rgb.bias": None}, r"missing generator\.conv_to_rgb\.bias:"),
        ({"generator.bn.running_means": None, "embeddings.weight": None}, r"missing embeddings\.weight, generator\.bn"),
        ({"generator.gen_z.weight_v": None}, r"missing generator\.gen_z\.weight_v"),
        ({"generator.extra": torch.zeros(1)}, r"unexpected generator\.extra"),
        (
            {"embeddings.weight": torch.zeros(3, 8)},
            r"misshapen embeddings\.weight \(torch\.float32 \[3, 8\], not \[3, 7\]",
        ),
        ({"generator.bn.running_vars": torch.ones(50, 8)}, r"misshapen generator\.bn\.running_vars .*not \[51, 8\]"),
        ({"embeddings.weight": torch.zeros(3, 7, dtype=torch.int64)}, r"misshapen embeddings\.weight \(torch\.int64"),
        ({"generator.gen_z.weight_u": torch.zeros(512)}, r"damaged: gen_z\.weight would not be finite"),
        ({"generator.bn.bias": torch.full((8,), torch.nan)}, r"damaged: bn\.bias would not be finite"),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path, change, message):
    tensors = {name: value for name, value in (published() | change).items() if value is not None}
    write_tensors(tmp_path / "other.safetensors", tensors)
    with pytest.raises(UserError, match=message) as error:
        load_biggan_deep(tmp_path / "other.safetensors", SMALL)
    assert "\n" not in str(error.value)


def test_another_layout_is_refused_and_the_line_stays_short(file):
    with pytest.raises(UserError, match=r"missing .* and \d+ more; misshapen .* and \d+ more") as error:
        load_biggan_deep(file, LAYOUTS[128])
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "is missing"), (b"", "is damaged"), (b"an error page", "is damaged"), ([1], "is no state dict"),
     ({"a": 1}, "is no state dict"), ({"a": Layout((1,))}, "holds more than tensors")],
)  # fmt: skip
def test_files_that_hold_no_tensors_are_refused(tmp_path, content, message):
    path = tmp_path / "other.bin"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(UserError, match=message) as error:
        load_biggan_deep(path, SMALL)
    assert "\n" not in str(error.value)


def test_the_256_pixel_layout_has_the_size_of_the_published_file():
    shapes = wanted(LAYOUTS[256])
    numbers = sum(prod(shape) for shape in shapes.values())
    assert 0 <= PUBLISHED_BYTES - 4 * numbers < 250 * len(shapes)
