import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.metrics.statistics import slope, spearman, summarise
from leaklab.records.streams import stream


def test_moments():
    summary = summarise([1.0, 2.0, 6.0])
    assert (summary.n, summary.mean, summary.median) == (3, 3.0, 2.0)
    assert summary.std == pytest.approx(math.sqrt(7))


def test_the_interval_is_near_the_normal_one_for_many_values():
    values = stream(0, "values").normal(400).numpy()
    summary = summarise(values, "test")
    half = 1.96 * values.std(ddof=1) / math.sqrt(400)
    assert summary.ci_low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert summary.ci_high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_interval_covers_the_true_mean_about_19_times_in_20():
    hits = 0
    for trial in range(200):
        summary = summarise(stream(trial, "values").uniform(40).numpy(), trial)
        hits += summary.ci_low <= 0.5 <= summary.ci_high
    assert 178 <= hits <= 200


def test_draws_belong_to_the_name():
    values = np.arange(10.0)
    assert summarise(values, "a") == summarise(values, "a")
    assert summarise(values, "a") != summarise(values, "b")


def test_the_medians_interval_covers_the_true_median_about_19_times_in_20():
    hits = 0
    for trial in range(200):
        summary = summarise(stream(trial, "values").uniform(41).numpy() ** 4, trial)
        hits += summary.median_low <= 0.5**4 <= summary.median_high
    assert 178 <= hits <= 200


def test_the_median_of_unequal_groups_is_that_of_their_values():
    values, groups = [1.0, 1.0, 1.0, 9.0], ["a", "a", "a", "b"]
    summary = summarise(values, groups=groups)
    # of four equally likely draws of two groups one is b twice
    assert (summary.median_low, summary.median_high) == (1, 9)
    assert summarise(values[2:], groups=groups[2:]).median_high == 9


def test_one_value_has_no_spread():
    summary = summarise([4.0])
    assert summary.median_low is None
    assert summary.mean == 4
    assert summary.std is None
    assert summary.ci_low is None


def test_repeated_draws_of_an_image_do_not_narrow_the_interval():
    images = stream(0, "images").normal(20).numpy()
    once, pretended = summarise(images, "x"), summarise(np.repeat(images, 10), "x")
    grouped = summarise(np.repeat(images, 10), "x", groups=list(np.repeat(range(20), 10)))
    assert (grouped.ci_low, grouped.ci_high) == pytest.approx((once.ci_low, once.ci_high))
    assert pretended.ci_high - pretended.ci_low < 0.5 * (once.ci_high - once.ci_low)
    assert grouped.n == 200


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0]]])
def test_nonsense_is_refused(values):
    with pytest.raises(ValueError, match="at least one value"):
        summarise(values)


def test_keys_must_match_the_values():
    with pytest.raises(ValueError, match="2 values but 1 group"):
        summarise([1.0, 2.0], groups=["a"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_interval_lies_within_the_values(values):
    summary = summarise(values)
    slack = 1e-9 * (1 + max(map(abs, values)))
    assert min(values) - slack <= summary.ci_low <= summary.ci_high <= max(values) + slack


def test_rank_correlation():
    assert spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5
    assert spearman([1, 2, 2, 5], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    with pytest.raises(ValueError, match="constant"):
        spearman([1, 1], [1, 2])


def test_slope_of_a_line():
    assert slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    with pytest.raises(ValueError, match="single x"):
        slope([1, 1], [1, 2])
