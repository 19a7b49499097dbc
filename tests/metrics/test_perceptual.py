"""F17 for LPIPS: published distances with the real weights, and honesty without them."""

import os
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leaklab.data import download
from leaklab.metrics.perceptual import LpipsAlex, LpipsSqueeze
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MIRROR = os.environ.get("LEAKLAB_MIRROR")
with_mirror = [
    pytest.mark.mirror,
    pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: no weights to test with"),
]


def example(name):
    pixels = np.asarray(Image.open(Path(MIRROR) / "weights/lpips_check" / f"{name}.png").convert("RGB"))
    return torch.tensor(pixels).permute(2, 0, 1).unsqueeze(0).double() / 255


class TestWithWeights:
    pytestmark = with_mirror

    @pytest.mark.parametrize(("name", "distance"), [("ex_p0", 0.711), ("ex_p1", 0.148), ("ex_ref", 0)])
    def test_distances_of_the_example_images(self, name, distance):
        assert float(LpipsSqueeze().values(example(name), example("ex_ref"))) == pytest.approx(distance, abs=5e-4)

    def test_the_input_range_matters(self):
        """Fed with [0, 1] instead of [-1, 1], the network gives another distance (F17)."""
        right = LpipsSqueeze().values(example("ex_p0"), example("ex_ref"))
        fed_with_unit_range = LpipsSqueeze().values((1 + example("ex_p0")) / 2, (1 + example("ex_ref")) / 2)
        assert abs(fed_with_unit_range - right) > 1e-3

    def test_small_gray_images_are_enlarged_and_tripled(self):
        truth, guess = stream(0, "images").uniform(2, 5, 1, 28, 28)
        by_hand = [
            torch.nn.functional.interpolate(images.float(), size=(32, 32), mode="bilinear").repeat(1, 3, 1, 1)
            for images in (guess, truth)
        ]
        assert LpipsSqueeze().values(guess, truth).numpy() == pytest.approx(
            LpipsSqueeze().values(*by_hand).numpy(), rel=1e-5
        )
        assert LpipsSqueeze().values(truth, truth).abs().max() == 0

    def test_chunks_do_not_change_values(self, monkeypatch):
        truth, guess = stream(0, "images").uniform(2, 5, 3, 32, 32)
        whole = LpipsSqueeze().values(guess, truth)
        monkeypatch.setattr("leaklab.metrics.perceptual.IMAGES_PER_PASS", 2)
        assert LpipsSqueeze().values(guess, truth).numpy() == pytest.approx(whole.numpy(), rel=1e-5)

    def test_loading_leaves_the_global_generator_alone(self):
        from leaklab.metrics.perceptual import _network

        _network.cache_clear()
        before = torch.random.get_rng_state()
        LpipsSqueeze().values(torch.zeros(1, 1, 32, 32), torch.ones(1, 1, 32, 32))
        assert torch.equal(before, torch.random.get_rng_state())


def test_without_weights_the_metric_says_so_and_never_guesses(monkeypatch, tmp_path):
    def no_network(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    monkeypatch.setattr(download, "LOCAL", tmp_path)
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    reason = LpipsAlex().available()
    assert "alexnet-owt-7be5be79.pth cannot be downloaded (no route to host)" in reason
    with pytest.raises(UserError, match="cannot be downloaded"):
        LpipsAlex().values(torch.zeros(1, 3, 32, 32), torch.ones(1, 3, 32, 32))


def test_damaged_weights_are_an_error_and_not_merely_missing(monkeypatch, tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "alexnet-owt-7be5be79.pth").write_bytes(b"cut short")
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
    with pytest.raises(UserError, match="is damaged"):
        LpipsAlex().available()
