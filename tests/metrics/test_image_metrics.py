"""F17: the numbers that a metric card promises."""

import numpy as np
import pytest
import torch
from skimage import data
from skimage.metrics import structural_similarity

from leaklab.metrics.pixel import (
    CAP_DB,
    MeanSquaredError,
    PeakSignalToNoiseRatio,
    RawMeanSquaredError,
    StructuralSimilarity,
)
from leaklab.records import plugins
from leaklab.records.streams import stream

NAMES = [
    *(
        "certified",
        "exact-share",
        "false-certificate",
        "linear-posterior",
        "lpips-alex",
        "lpips-squeeze",
        "lpips-vgg",
        "mse",
        "mse-r",
        "mse-r-pretrained",
        "mse-raw",
        "mse-signed",
    ),
    *("psnr", "psnr-signed", "queries", "reconstruction-loss", "ssim", "update-norm"),
]


@pytest.fixture
def photographs():
    """Crops of a real photograph, [4, 3, 28, 28], kept inside [0.2, 0.8]."""
    image = torch.as_tensor(data.astronaut()).permute(2, 0, 1).double() / 255
    crops = [image[:, top : top + 28, 200:228] for top in (40, 100, 160, 220)]
    return 0.2 + 0.6 * torch.stack(crops)


@pytest.mark.parametrize("offset", [0.001, 0.05, -0.2])
def test_psnr_of_a_shifted_image_is_analytic(photographs, offset):
    values = PeakSignalToNoiseRatio().values(photographs + offset, photographs)
    assert values.numpy() == pytest.approx(-20 * np.log10(abs(offset)), abs=1e-6)


def test_the_signed_scale_costs_six_decibels(photographs):
    shifted = photographs + 0.1
    lost = PeakSignalToNoiseRatio().values(shifted, photographs) - PeakSignalToNoiseRatio(signed=True).values(
        shifted, photographs
    )
    assert lost.numpy() == pytest.approx(6.0205999, abs=1e-6)
    ratio = MeanSquaredError(signed=True).values(shifted, photographs) / MeanSquaredError().values(shifted, photographs)
    assert ratio.numpy() == pytest.approx(4)


def test_mean_psnr_is_never_below_the_psnr_of_the_mean_error(photographs):
    noise = stream(0, "noise").normal(4, 3, 28, 28) * torch.tensor([0.01, 0.05, 0.1, 0.3]).view(4, 1, 1, 1)
    psnr = PeakSignalToNoiseRatio().values(photographs + noise, photographs)
    error = MeanSquaredError().values(photographs + noise, photographs)
    assert float(psnr.mean()) > -10 * float(error.mean().log10())


def test_an_exact_copy_gets_the_cap_and_only_that_image(photographs):
    guess = photographs.clone()
    guess[1] += 0.1
    values = PeakSignalToNoiseRatio().values(guess, photographs)
    assert values[0] == CAP_DB
    assert values[1] == pytest.approx(20)


def test_clamping_bounds_the_error_and_the_raw_error_is_not_bounded(photographs):
    guess = torch.full_like(photographs, 1e5)
    assert MeanSquaredError().values(guess, photographs).max() <= 1
    assert RawMeanSquaredError().values(guess, photographs).min() > 0.99e10
    assert RawMeanSquaredError().values(guess * 1e300, photographs).isfinite().all()


def test_ssim_of_a_copy_is_one(photographs):
    assert StructuralSimilarity().values(photographs, photographs).numpy() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("channels", [1, 3])
def test_ssim_equals_the_reference_implementation(photographs, channels):
    """That one leaves out the windows that reach over the border; here the border is mirrored outside."""
    truth = photographs[:, :channels]
    guess = truth + 0.1 * stream(0, "noise").normal(4, channels, 28, 28)
    framed = [torch.nn.functional.pad(images, [5] * 4, mode="reflect") for images in (truth, guess.clamp(0, 1))]
    expected = [
        structural_similarity(
            original.numpy(), shown.numpy(), channel_axis=0, data_range=1,
            gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
        )
        for original, shown in zip(*framed, strict=True)
    ]  # fmt: skip
    assert StructuralSimilarity().values(guess, truth).numpy() == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "sides", [(1, 1), (1, 5), (2, 2), (2, 28), (3, 3), (4, 4), (5, 5), (5, 9), (7, 7), (8, 8), (28, 28)]
)
def test_ssim_of_images_below_the_window_is_the_reference_with_the_largest_odd_window_that_fits(
    photographs, sides, channels
):
    truth = photographs[:, :channels, : sides[0], : sides[1]]
    guess = (truth + 0.1 * stream(0, "noise").normal(*truth.shape)).clamp(0, 1)
    radius = (min(*sides, 11) - 1) // 2
    framed = [torch.nn.functional.pad(images, [radius] * 4, mode="reflect") for images in (truth, guess)]
    expected = [
        structural_similarity(
            original.numpy(), shown.numpy(), channel_axis=0, data_range=1,
            gaussian_weights=True, sigma=1.5 if radius == 5 else radius / 3.5, use_sample_covariance=False,
        )
        for original, shown in zip(*framed, strict=True)
    ]  # fmt: skip
    assert StructuralSimilarity().values(guess, truth).numpy() == pytest.approx(np.array(expected), abs=1e-6)


@pytest.mark.parametrize("side", [4, 7, 8, 10, 11, 12])
def test_ssim_window_fits_small_images(photographs, side):
    truth = photographs[:, :1, :side, :side]
    same, other = (StructuralSimilarity().values(guess, truth) for guess in (truth, truth.flip(-1)))
    assert same.numpy() == pytest.approx(1)
    assert other.isfinite().all()
    assert (other < 0.9999).all()


@pytest.mark.parametrize("metric", [MeanSquaredError(), RawMeanSquaredError(), PeakSignalToNoiseRatio(),
                                    StructuralSimilarity()])  # fmt: skip
def test_a_value_depends_on_its_own_image_alone(photographs, metric):
    guess = photographs.flip(-1)
    alone = torch.cat([metric.values(guess[i : i + 1], photographs[i : i + 1]) for i in range(4)])
    together = metric.values(guess, photographs)
    assert together.shape == (4,)
    assert together.dtype == torch.float64
    assert together.numpy() == pytest.approx(alone.numpy(), rel=1e-12)


def test_every_plug_in_has_a_complete_card():
    of_updates = {"member-margin", "named-by-gradient", "named-image", "nearest-member"}
    assert [name for name in plugins.available("metrics") if name not in of_updates] == NAMES
    for name in NAMES:
        card = plugins.load("metrics", name).card
        assert card.name == name.replace("-", "_")
        lower = {"certified", "exact-share", "psnr", "psnr-signed", "ssim", "update-norm"}
        assert card.better == ("lower" if name in lower else "higher")
        assert all([card.domain, card.clamping, card.input_range, card.assignment, card.averaging])
        assert bool(card.network) == (name.startswith("lpips") or name in {"mse-r", "mse-r-pretrained"})
