import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leaklab.metrics.statistics import paired_difference, slope, spearman, summarise
from leaklab.records.streams import stream


def test_moments():
    summary = summarise([1.0, 2.0, 6.0])
    assert (summary.n, summary.clusters, summary.mean, summary.median) == (3, 3, 3.0, 2.0)
    assert summary.std == pytest.approx(math.sqrt(7))


def test_a_cluster_counts_once_whatever_its_size():
    summary = summarise([1.0, 1.0, 1.0, 9.0, 2.0], ["a", "a", "a", "b", "b"])
    # means 1 and 5.5, medians the same
    assert (summary.n, summary.clusters, summary.mean, summary.median) == (5, 2, 3.25, 3.25)
    assert summary.std == pytest.approx(4.5 / math.sqrt(2))


def test_the_interval_of_the_mean_is_students():
    values = [1.0, 2.0, 4.0, 8.0, 9.0, 12.0]
    reach = stats.sem(values) * stats.t.ppf(0.975, 5)
    summary = summarise(values)
    assert (summary.ci_low, summary.ci_high) == pytest.approx((6 - reach, 6 + reach))


# (rank from below, of so many): P(Bin(n, 1/2) < rank) <= 2.5 %, from tables of the sign test
@pytest.mark.parametrize(("count", "rank"), [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (17, 5), (20, 6)])
def test_the_interval_of_the_median_is_the_sign_tests(count, rank):
    summary = summarise(np.random.default_rng(count).permutation(count) + 1.0)
    assert (summary.median_low, summary.median_high) == (rank, count + 1 - rank)


def test_below_six_clusters_there_is_no_interval_however_many_values():
    summary = summarise(np.arange(50.0), list(np.arange(50) % 5))
    assert summary.clusters == 5
    assert {summary.ci_low, summary.ci_high, summary.median_low, summary.median_high} == {None}
    assert summarise(np.arange(6.0)).ci_low is not None


class TestCoverage:
    """Clusters of four values that share most of their noise; 1,000 samples each, so a share has an error of 0.7 %."""

    SAMPLES = 1000

    def samples(self, clusters):
        draws = stream(0, "coverage", clusters)
        shared = draws.normal(self.SAMPLES, clusters, 1).numpy()
        own = draws.normal(self.SAMPLES, clusters, 4).numpy()
        return (shared + 0.7 * own).reshape(self.SAMPLES, -1), list(np.repeat(range(clusters), 4))

    @pytest.mark.parametrize("clusters", [6, 10, 20])
    def test_the_mean(self, clusters):
        samples, keys = self.samples(clusters)
        found = [summarise(values, keys) for values in samples]
        assert 0.93 <= np.mean([one.ci_low <= 0 <= one.ci_high for one in found]) <= 0.97
        # an interval from the smallest to the largest mean is as safe, and too wide
        means = samples.reshape(self.SAMPLES, clusters, 4).mean(2)
        widths = np.array([one.ci_high - one.ci_low for one in found])
        students = 2 * stats.t.ppf(0.975, clusters - 1) * means.std(1, ddof=1) / math.sqrt(clusters)
        assert widths == pytest.approx(students)
        if clusters == 20:
            assert np.mean(np.ptp(means, axis=1)) > 3 * widths.mean()

    @pytest.mark.parametrize("clusters", [6, 10, 20])
    def test_the_median(self, clusters):
        samples, keys = self.samples(clusters)
        found = [summarise(values, keys) for values in samples]
        exact = 1 - 2 * stats.binom.cdf({6: 0, 10: 1, 20: 5}[clusters], clusters, 0.5)
        covered = np.mean([one.median_low <= 0 <= one.median_high for one in found])
        assert covered >= 0.93
        assert covered == pytest.approx(exact, abs=0.025)

    def test_values_taken_as_independent_do_not_cover(self):
        samples, _ = self.samples(10)
        assert np.mean([one.ci_low <= 0 <= one.ci_high for one in map(summarise, samples)]) < 0.85


def test_equal_values_have_equal_intervals():
    values = stream(0, "values").normal(20).numpy()
    assert summarise(values, list(range(20))) == summarise(values, [f"image {i}" for i in range(20)])


def test_one_value_has_no_spread():
    summary = summarise([4.0])
    assert summary.mean == 4
    assert {summary.std, summary.ci_low, summary.median_low} == {None}


def test_repeated_draws_of_an_update_do_not_narrow_the_interval():
    images = stream(0, "images").normal(20).numpy()
    once, pretended = summarise(images), summarise(np.repeat(images, 10))
    grouped = summarise(np.repeat(images, 10), list(np.repeat(range(20), 10)))
    assert (grouped.ci_low, grouped.ci_high) == pytest.approx((once.ci_low, once.ci_high))
    assert (grouped.median_low, grouped.median_high) == (once.median_low, once.median_high)
    assert pretended.ci_high - pretended.ci_low < 0.5 * (once.ci_high - once.ci_low)
    assert (grouped.n, grouped.clusters) == (200, 20)


class TestPairs:
    def test_what_two_attackers_share_is_no_difference_between_them(self):
        images = 10 * stream(0, "images").normal(10).numpy()
        better = images + 1 + 0.1 * stream(0, "noise").normal(10).numpy()
        alone, other, paired = summarise(better), summarise(images), paired_difference(better, images)
        assert alone.ci_low < other.ci_high
        assert paired.ci_low > 0.8
        assert paired.median_low > 0.8

    def test_the_same_attack_twice_is_no_difference_at_all(self):
        values = stream(0, "images").normal(10).numpy()
        paired = paired_difference(values, values)
        assert {paired.mean, paired.ci_low, paired.ci_high, paired.median_low, paired.median_high} == {0}

    def test_both_sides_have_as_many_values(self):
        with pytest.raises(ValueError, match="not 2 and 1"):
            paired_difference([1.0, 2.0], [1.0])


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0]]])
def test_nonsense_is_refused(values):
    with pytest.raises(ValueError, match="at least one value"):
        summarise(values)


def test_keys_must_match_the_values():
    with pytest.raises(ValueError, match="2 values but 1 key"):
        summarise([1.0, 2.0], ["a"])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=20))
def test_the_medians_interval_lies_within_the_values(values):
    summary = summarise(values)
    assert min(values) <= summary.median_low <= summary.median <= summary.median_high <= max(values)


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
