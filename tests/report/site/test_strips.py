"""The first pictures of a paper: which image is shown, what stands under it, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from leaklab.records.errors import UserError
from leaklab.report.site.headlines import Strip
from leaklab.report.site.strips import CLOSEST, psnr, said, strip

OWN = Strip(
    item="figure", of="somebody on something", leaks=20.0, images=("a", "b"), original="{image} original",
    undefended="{image} plain", paper="{image} paper", knowing="{image} knowing",
)  # fmt: skip
FIGURE = Path("figures/small/paper/figure.npz")


def pictures():
    """Return pictures of two images: the defense hides the second one better from the paper's attacker."""
    draws = np.random.default_rng(0)
    shown = {}
    for image, far in (("a", 40), ("b", 90)):
        original = draws.integers(100, 150, (4, 4), dtype=np.uint8)
        shown |= {
            f"{image} original": original,
            f"{image} plain": original,
            f"{image} paper": (original + far).astype(np.uint8),
            f"{image} knowing": (original + 3).astype(np.uint8),
        }
    return shown


def test_the_image_is_the_one_that_is_hidden_best_and_each_number_is_its_picture_s():
    text = strip(OWN, "Own & co", pictures(), FIGURE)
    hidden = psnr(np.full((2, 2), 100, np.uint8), np.full((2, 2), 190, np.uint8))
    assert f">{hidden:.0f} dB<" in text
    assert text.count('class="number leaks"') == 2  # without a defense, and who knows it
    assert text.count('class="number hidden"') == 1
    assert f"over {CLOSEST:.0f} dB" in text
    assert "Own &amp; co," in text
    assert text.count("data:image/png;base64,") == 4


def test_a_psnr_is_that_of_values_from_0_to_1():
    assert psnr(np.zeros((2, 2), np.uint8), np.full((2, 2), 255, np.uint8)) == 0
    assert said(psnr(np.zeros((2, 2), np.uint8), np.full((2, 2), 51, np.uint8))) == "14 dB"


def test_a_picture_that_the_figure_lacks_is_named():
    lacking = {name: one for name, one in pictures().items() if name != "b knowing"}
    with pytest.raises(UserError, match=r"figure\.npz has no picture 'b knowing'"):
        strip(OWN, "Own", lacking, FIGURE)
