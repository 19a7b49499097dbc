"""Soft ranks: probabilities that add up, their limits, and their derivative through the threshold."""

import pytest
import torch

from leaklab.attacks.adaptive.ranked_steps import rank_logits
from leaklab.records.streams import stream

TRIALS, ENTRIES = 3, 40


@pytest.fixture
def sizes():
    """Squares that span eight orders of magnitude, as in a trained network."""
    draws = stream(0, "sizes")
    return (draws.normal(TRIALS, ENTRIES) * 10 ** (2 * draws.normal(TRIALS, ENTRIES))) ** 2


LARGEST = torch.tensor([1, 8, 39])


@pytest.mark.parametrize("width", [1e-4, 0.03, 0.3, 5.0])
def test_the_probabilities_add_up_to_how_many_there_are(sizes, width):
    total = torch.sigmoid(rank_logits(sizes, LARGEST, width)).sum(1)
    assert torch.allclose(total, LARGEST.double(), rtol=1e-8)


def test_they_are_ordered_as_the_sizes_and_turn_into_ranks(sizes):
    wide, narrow = (rank_logits(sizes, LARGEST, width) for width in (0.2, 1e-6))
    for trial, number in enumerate(LARGEST.tolist()):
        order = sizes[trial].argsort(descending=True)
        assert bool((wide[trial, order].diff() <= 0).all())
        chosen = torch.zeros(ENTRIES).double()
        chosen[order[:number]] = 1
        assert torch.allclose(torch.sigmoid(narrow[trial]), chosen, atol=1e-6)


def test_a_common_factor_changes_no_rank(sizes):
    assert torch.allclose(rank_logits(sizes, LARGEST, 0.1), rank_logits(1e-9 * sizes, LARGEST, 0.1), rtol=1e-6)


def test_the_derivative_is_that_through_the_threshold(sizes):
    """Against differences; without the threshold's part it would be another one."""
    values = sizes.sqrt() + 0.1
    weights, direction = stream(1, "weights").normal(TRIALS, ENTRIES), stream(2, "way").normal(TRIALS, ENTRIES)

    def total(entries):
        return (torch.sigmoid(rank_logits(entries**2, LARGEST, 0.1)) * weights).sum(1)

    leaf, step = values.clone().requires_grad_(), 1e-6
    (slope,) = torch.autograd.grad(total(leaf).sum(), leaf)
    expected = (total(values + step * direction) - total(values - step * direction)) / (2 * step)
    assert torch.allclose((slope * direction).sum(1), expected, rtol=1e-5, atol=1e-9)
    assert bool((slope.abs() > 0).any())


def test_entries_of_size_zero_share_what_is_left(sizes):
    sizes[:, 5:] = 0.0
    share = torch.sigmoid(rank_logits(sizes, torch.full((TRIALS,), 10), 0.03))
    assert torch.allclose(share[:, :5], torch.ones(TRIALS, 5).double())
    assert torch.allclose(share[:, 5:], torch.full((TRIALS, 35), 5 / 35).double(), rtol=1e-6)
    nothing = torch.sigmoid(rank_logits(torch.zeros(1, 20).double(), torch.tensor([5]), 0.1))
    assert torch.allclose(nothing, torch.full((1, 20), 0.25).double())
