"""F18: a batch comes back in any order, and all metrics use the same one."""

import torch

from leaklab.metrics.guesses import match, reorder
from leaklab.metrics.pixel import MeanSquaredError, PeakSignalToNoiseRatio, StructuralSimilarity
from leaklab.metrics.scoring import image_scores
from leaklab.records.streams import stream

TRUTH = stream(0, "truth").uniform(3, 6, 1, 12, 12)
SHUFFLED = torch.stack([stream(0, "order", t).permutation(6) for t in range(3)])


def test_a_permuted_perfect_reconstruction_is_put_right():
    reconstruction = reorder(TRUTH, SHUFFLED)
    order = match(reconstruction, TRUTH)
    assert torch.equal(reorder(reconstruction, order), TRUTH)
    assert torch.equal(order, SHUFFLED.argsort(1))


def test_the_pairing_is_a_bijection_even_if_one_guess_is_nearest_to_all():
    guess = stream(0, "guess").uniform(3, 6, 1, 12, 12)
    guess[:, 0] = TRUTH.mean(1)
    order = match(guess, TRUTH)
    assert torch.equal(order.sort(1).values, torch.arange(6).expand(3, 6))


def test_the_assignment_sees_clamped_images():
    """A pixel far outside the range costs as much as one at its edge, as in the metric itself."""
    truth = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).view(1, 2, 1, 1, 2)
    guess = torch.tensor([[1.0, 50.0], [0.9, 0.0]]).view(1, 2, 1, 1, 2)
    assert match(guess, truth).tolist() == [[1, 0]]


def test_all_metrics_use_the_same_permutation():
    """SSIM alone would pair these two the other way round: the pairing of the MSE decides for both."""
    ramp = torch.linspace(0, 0.5, 16).repeat(16, 1)
    truth = torch.stack([ramp, torch.full((16, 16), 0.75)]).view(1, 2, 1, 16, 16)
    guess = torch.stack([ramp + 0.5, torch.full((16, 16), 0.25)]).view(1, 2, 1, 16, 16)
    metrics = [MeanSquaredError(), PeakSignalToNoiseRatio(), StructuralSimilarity()]
    scores = image_scores(metrics, {"best-by-loss": guess}, truth)
    (order,) = match(guess, truth)
    paired, swapped = guess[0, order], guess[0, order.flip(0)]
    by_ssim = StructuralSimilarity()
    assert by_ssim.values(swapped, truth[0]).sum() > by_ssim.values(paired, truth[0]).sum() + 0.1
    for metric in metrics:
        assert torch.equal(scores["best-by-loss", metric.card.name][0], metric.values(paired, truth[0]))
