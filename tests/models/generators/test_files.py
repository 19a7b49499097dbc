"""What is written is what is read, and nothing else is."""

import json
from dataclasses import asdict

import pytest
import torch
from torch.nn import functional as F

from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_tensors
from leaklab.records.streams import stream

ARCHITECTURE = ConditionalGan(latent_size=5, embedding=3, width=4)
CLASSES = 7


@pytest.fixture
def saved(tmp_path):
    generator = ARCHITECTURE.generator((1, 8, 8), CLASSES, stream(0, "g")).frozen()
    generator.norm0.running_mean.uniform_(-1, 1, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "generator.safetensors"
    save_generator(path, generator, "conditional-gan", asdict(ARCHITECTURE))
    return path, generator


def test_a_generator_comes_back_with_its_statistics(saved):
    path, generator = saved
    loaded = load_generator(path)
    draws = stream(1, "z").normal(4, 5).float(), F.one_hot(torch.arange(4), CLASSES).float()
    assert torch.equal(loaded.generate(*draws), generator.generate(*draws))
    assert (loaded.latent_size, loaded.num_classes, loaded.image_shape) == (5, CLASSES, (1, 8, 8))
    loaded.require_frozen()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("settings", {"latent_size": 6, "embedding": 3, "width": 4}, r"'project.weight' is torch.float32 \[64, 8\]"),
        ("num_classes", 8, r"'embed.weight' is torch.float32 \[3, 7\], not torch.float32 \[3, 8\]"),
        ("image_shape", [3, 8, 8], "'paint.weight' is"),
        ("name", "no-such", "unknown models/generators plug-in 'no-such'"),
        ("settings", {"depth": 2}, "has no setting 'depth'"),
    ],
)
def test_another_size_is_refused(saved, key, value, message):
    card = saved[0].with_suffix(".json")
    card.write_text(json.dumps(json.loads(card.read_text()) | {key: value}))
    with pytest.raises(UserError, match=message):
        load_generator(saved[0])


def test_a_description_without_sizes_is_refused(saved):
    saved[0].with_suffix(".json").write_text("{}")
    with pytest.raises(UserError, match="its description lacks"):
        load_generator(saved[0])


@pytest.mark.parametrize("change", ["missing", "surplus", "nan", "dtype"])
def test_weights_that_do_not_fit_are_refused(saved, change):
    weights = read_tensors(saved[0])
    if change == "missing":
        del weights["paint.bias"]
    elif change == "surplus":
        weights["other"] = torch.zeros(1)
    elif change == "nan":
        weights["paint.bias"] *= torch.nan
    else:
        weights["paint.bias"] = weights["paint.bias"].double()
    write_tensors(saved[0], weights)
    with pytest.raises(UserError, match=r"is no generator: '(paint\.bias|other)'"):
        load_generator(saved[0])


def test_missing_and_damaged_files_are_refused(saved, tmp_path):
    with pytest.raises(UserError, match="is missing"):
        load_generator(tmp_path / "none.safetensors")
    saved[0].write_bytes(saved[0].read_bytes()[:100])
    with pytest.raises(UserError, match="is damaged"):
        load_generator(saved[0])
