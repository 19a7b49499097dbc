"""Laplace noise has the printed variance and Laplace's law, is fresh in each step and clips nothing."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import kstest

from leaklab.defenses.base import Alone
from leaklab.defenses.noise import LaplaceNoise
from leaklab.records import plugins
from leaklab.records.errors import UserError

SIZE = 40_000


def drawn(defense, context, step=0, like=None):
    zero = {"w": torch.zeros(SIZE, dtype=torch.float64) if like is None else like}
    return defense.gradient(zero, context.at(Alone(step)))["w"]


@pytest.mark.parametrize(("variance", "scale"), [(0.1, 0.2236068), (0.02, 0.1)])
def test_the_law_is_laplaces_with_the_printed_variance_or_the_coded_scale(context, variance, scale):
    defense = LaplaceNoise(variance)
    assert defense.scale == pytest.approx(scale)
    noise = drawn(defense, context)
    assert float(noise.var()) == pytest.approx(variance, rel=0.05)
    assert kstest(noise.numpy(), "laplace", args=(0, scale)).pvalue > 0.01
    assert kstest(noise.numpy(), "norm", args=(0, variance**0.5)).pvalue < 1e-6


def test_steps_names_and_clients_have_draws_of_their_own(context):
    both = {name: torch.zeros(50, dtype=torch.float64) for name in ("first", "second")}
    client = replace(context, _streams={})
    found = [LaplaceNoise().gradient(both, client.at(Alone(step))) for step in range(2)]
    found.append(LaplaceNoise().gradient(both, replace(context, _streams={}, client=9)))
    rows = torch.stack([one[name] for one in found for name in both])
    assert torch.corrcoef(rows).fill_diagonal_(0).abs().max() < 0.6
    again = LaplaceNoise().gradient(both, replace(context, _streams={}))
    assert torch.equal(again["first"], found[0]["first"])


def test_nothing_is_clipped(context):
    """The noise on a huge gradient is the noise on none."""
    huge = torch.full((SIZE,), 1e4, dtype=torch.float64)
    first, second = (drawn(LaplaceNoise(), replace(context, _streams={}), like=like) for like in (None, huge))
    torch.testing.assert_close(second - 1e4, first, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variance", [0.0, -0.1, float("nan"), float("inf")])
def test_a_variance_out_of_range_is_refused_with_a_plan_and_without(variance):
    with pytest.raises(UserError, match="variance"):
        plugins.check("defenses", "laplace-noise", {"variance": variance})
    with pytest.raises(UserError, match="variance must be a number above 0"):
        LaplaceNoise(variance)
