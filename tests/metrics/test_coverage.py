"""How often a 95 % interval holds the truth: counted exactly where outcomes can be listed, else over fixed draws."""

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from leaklab.metrics.intervals import (
    fractions_interval,
    outcomes_interval,
    paired_difference_for,
    rank_interval,
    summarise_share,
)
from leaklab.metrics.statistics import summarise
from leaklab.records.draws import draws
from leaklab.report.judge.terms import Term, reach_of

SHARES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
COUNTS = range(6, 41)


def in_squares(numbers):
    """The interval of a sum of independent numbers (value, low, high), by the code that judges claims."""
    known = list(numbers)
    below, above = reach_of([Term(v - low, high - v, origin=str(place)) for place, (v, low, high) in enumerate(known)])
    value = sum(v for v, *_ in known)
    return value - below, value + above


def zeros_and_ones(hits, count):
    return np.repeat([1.0, 0.0], [hits, count - hits])


def coverage(interval, count, share):
    """Return the chance that the interval of a number of hits holds the share, over all numbers of hits."""
    chance = stats.binom.pmf(np.arange(count + 1), count, share)
    ends = [interval(hits, count) for hits in range(count + 1)]
    return math.fsum(p for p, (low, high) in zip(chance, ends, strict=True) if low <= share <= high)


def expected_width(interval, count, share):
    chance = stats.binom.pmf(np.arange(count + 1), count, share)
    return math.fsum(p * np.subtract(*interval(hits, count)[::-1]) for hits, p in enumerate(chance))


def students(hits, count):
    summary = summarise(zeros_and_ones(hits, count))
    return summary.ci_low, summary.ci_high


def students_ends(samples):
    """Return the middle and the half-width of many samples' intervals, over the last axis."""
    count = samples.shape[-1]
    return samples.mean(-1), stats.t.ppf(0.975, count - 1) * samples.std(-1, ddof=1) / math.sqrt(count)


def wilson(hits, count):
    return tuple(stats.binomtest(hits, count).proportion_ci(method="wilson"))


class TestShares:
    @pytest.mark.parametrize("interval", [outcomes_interval, fractions_interval])
    @pytest.mark.parametrize("count", COUNTS)
    def test_every_share_of_outcomes_is_covered(self, interval, count):
        for share in SHARES:
            assert coverage(interval, count, share) >= 0.95

    def test_the_table_of_ends_is_that_of_the_summary(self):
        for hits, count in ((0, 8), (1, 8), (8, 8), (13, 40)):
            summary = summarise_share(zeros_and_ones(hits, count))
            assert (summary.ci_low, summary.ci_high) == outcomes_interval(hits, count)
            assert summary.mean == hits / count

    def test_students_interval_of_outcomes_does_not_cover(self):
        assert coverage(students, 8, 0.1) == pytest.approx(0.57, abs=0.01)
        assert students(0, 8) == (0, 0)
        worst = min(coverage(students, count, share) for count in (6, 12, 20, 40) for share in (0.01, 0.1, 0.9, 0.99))
        assert worst < 0.1

    def test_wilsons_interval_does_not_cover_a_rare_outcome(self):
        assert min(coverage(wilson, count, share) for count in COUNTS for share in (0.01, 0.1)) < 0.94

    @pytest.mark.parametrize("count", [6, 8, 12, 20, 40])
    def test_to_cover_costs_less_than_half_of_the_width(self, count):
        for share in (0.1, 0.5, 0.9):
            own = expected_width(outcomes_interval, count, share)
            assert own <= 1.3 * expected_width(wilson, count, share)
            assert own <= expected_width(fractions_interval, count, share) <= 1.4 * own

    @pytest.mark.parametrize("interval", [outcomes_interval, fractions_interval])
    def test_no_interval_is_a_point_or_leaves_the_shares(self, interval):
        for count in COUNTS:
            for hits in range(count + 1):
                low, high = interval(hits, count)
                assert 0 <= low <= hits / count <= high <= 1
                assert high - low > 0.08

    def test_below_six_there_is_none(self):
        for interval in (outcomes_interval, fractions_interval):
            assert interval(3, 5) == (None, None)
        assert summarise_share([1.0] * 5).ci_low is None

    @pytest.mark.parametrize("values", [[0.0] * 6 + [1.5], [-0.1] * 6])
    def test_what_lies_outside_is_no_share(self, values):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            summarise_share(values)
        with pytest.raises(ValueError, match="is no"):
            outcomes_interval(7, 6)
        with pytest.raises(ValueError, match="is no"):
            fractions_interval(6.1, 6)


class TestFractions:
    """Updates with several outcomes: all that a mean of values in [0, 1] can do to an interval."""

    @pytest.mark.parametrize(
        "law", [(0.5, 0.0, 0.5), (0.7, 0.2, 0.1), (0.02, 0.08, 0.9), (0.0, 0.1, 0.9), (0.9, 0.1, 0)]
    )
    def test_every_law_on_none_half_and_all_is_covered(self, law):
        share = law[1] / 2 + law[2]
        for count in (6, 7, 12, 40):
            chance = np.ones(1)
            for _ in range(count):  # the law of twice the sum
                chance = np.convolve(chance, law)
            ends = [fractions_interval(twice / 2, count) for twice in range(2 * count + 1)]
            assert math.fsum(p for p, (low, high) in zip(chance, ends, strict=True) if low <= share <= high) >= 0.95

    @pytest.mark.parametrize("count", [6, 7, 12, 40])
    def test_every_sum_has_ends_in_order_also_nearly_none_and_nearly_all(self, count):
        """A label or two of a whole run of batches: sums that no half is near."""
        near = [whole + gap for whole in range(count + 1) for gap in (-1e-13, -1e-9, -1e-4, 0, 1e-13, 1e-9, 1e-4)]
        sums = [*near, *(count * draws(0, "sums", count).uniform(200, 1)).ravel()]
        for total in (min(max(float(one), 0.0), count) for one in sums):
            low, high = fractions_interval(total, count)
            assert 0 <= low <= total / count + 1e-9
            assert total / count - 1e-9 <= high <= 1
            assert high - low > 0.08

    @pytest.mark.parametrize(("share", "count"), [(0.01, 12), (0.1, 6), (0.5, 12), (0.9, 20)])
    def test_outcomes_of_one_update_that_go_together_count_once(self, share, count):
        """Batches of four whose images share their luck: 300 samples each, an error of 1.3 %."""
        source, keys = draws(0, "clusters", count, str(share)), list(np.repeat(np.arange(count), 4))
        luck = source.normal(300, count, 1) + 0.5 * source.normal(300, count, 4)
        hits = (luck < stats.norm.ppf(share) * math.sqrt(1.25)).astype(float).reshape(300, -1)
        found = [summarise_share(own, keys) for own in hits]
        assert np.mean([one.ci_low <= share <= one.ci_high for one in found]) >= 0.95
        if share == 0.5:  # taken as independent they do not cover
            ends = [outcomes_interval(int(own.sum()), own.size) for own in hits]
            assert np.mean([low <= share <= high for low, high in ends]) < 0.85


class TestDifferences:
    @pytest.mark.parametrize("count", [6, 9, 14])
    @pytest.mark.parametrize("law", [(0.0, 0.0), (0.05, 0.0), (0.3, 0.3), (0.6, 0.1), (1.0, 0.0)])
    def test_the_difference_of_paired_shares_is_covered(self, law, count):
        """Of each update only the first, only the second, or neither alone is a hit: every count of the three."""
        more, fewer = law
        covered = 0.0
        for plus, minus in itertools.product(range(count + 1), repeat=2):
            if plus + minus > count:
                continue
            first = np.repeat([1.0, 0.0, 1.0], [plus, minus, count - plus - minus])
            second = np.repeat([0.0, 1.0, 1.0], [plus, minus, count - plus - minus])
            summary = paired_difference_for("exact_share", first, second)
            assert -1 <= summary.ci_low < summary.ci_high <= 1
            if summary.ci_low <= more - fewer <= summary.ci_high:
                covered += stats.multinomial.pmf(
                    [plus, minus, count - plus - minus], count, [more, fewer, 1 - more - fewer]
                )
        assert covered >= 0.95


class TestMeans:
    """Of skewed values no short sample gives 95 %; the better of the two intervals stays."""

    LAWS: ClassVar = {
        "exponential": (lambda source, *shape: -np.log1p(-source.uniform(*shape)), 1.0),
        "lognormal": (lambda source, *shape: np.exp(source.normal(*shape)), math.exp(0.5)),
        "rounded": (lambda source, *shape: np.round(2 * source.normal(*shape)), 0.0),
    }

    @pytest.mark.parametrize(("law", "count", "least"), [
        ("exponential", 6, 0.86), ("exponential", 12, 0.88), ("exponential", 40, 0.90), ("lognormal", 6, 0.79),
        ("lognormal", 12, 0.82), ("lognormal", 40, 0.86), ("rounded", 6, 0.93), ("rounded", 12, 0.93),
    ])  # fmt: skip
    def test_students_interval_of_a_mean_covers_no_less_than_the_bootstraps(self, law, count, least):
        """500 samples each: an error of 1.7 % at 83 %; both intervals are of the same samples."""
        draw, mean = self.LAWS[law]
        samples = draw(draws(0, law, count), 500, count)
        middle, reach = students_ends(samples)
        first = summarise(samples[0])
        assert (first.ci_low, first.ci_high) == pytest.approx((middle[0] - reach[0], middle[0] + reach[0]))
        students = np.mean(np.abs(middle - mean) <= reach)
        ends = stats.bootstrap(
            (samples,), np.mean, axis=1, n_resamples=400, method="BCa", rng=0, batch=50
        ).confidence_interval
        assert least <= students <= 0.97
        assert students >= np.mean((ends.low <= mean) & (mean <= ends.high)) - 0.02

    def test_half_widths_of_independent_means_add_in_squares(self):
        low, high = in_squares([(1.0, 0.7, 1.3), (2.0, 1.6, 2.4)])
        assert (low, high) == pytest.approx((2.5, 3.5))
        low, high = in_squares([(0.0, 0.0, 0.3), (0.0, -0.4, 0.4)])
        assert (low, high) == pytest.approx((-0.4, 0.5))

    @pytest.mark.parametrize("count", [6, 12])
    def test_the_mean_over_independent_cells_is_covered_and_ends_taken_together_are_far_too_wide(self, count):
        cells = draws(0, "cells", count).normal(1000, 8, count)
        means, reach = students_ends(cells)
        ends = [in_squares(zip(m, m - r, m + r, strict=True)) for m, r in zip(means, reach, strict=True)]
        assert 0.94 <= np.mean([low <= 0 <= high for low, high in ends]) <= 0.99
        assert np.mean([high - low for low, high in ends]) < 0.4 * 2 * reach.sum(1).mean()

    def test_a_mean_and_a_share_add_in_squares_too(self):
        """Unequal sides: a share of 0.05 of 20, a normal mean of 12; 600 samples, an error of 0.9 %."""
        source, covered = draws(0, "both"), 0
        means, reach = students_ends(0.1 * source.normal(600, 12))
        for mean, half, hits in zip(means, reach, (source.uniform(600, 20) < 0.05).sum(1), strict=True):
            share = (hits / 20, *outcomes_interval(int(hits), 20))
            low, high = in_squares([(mean, mean - half, mean + half), share])
            covered += low <= 0.05 <= high
        assert covered >= 0.94 * 600


class TestRanks:
    @pytest.mark.parametrize(("rho", "count"), [(0.0, 6), (0.0, 12), (0.5, 8), (0.5, 20), (0.9, 12), (0.9, 20)])
    def test_a_rank_correlation_is_covered_or_said_to_have_no_interval(self, rho, count):
        """100 samples each, an error of 2.2 %; of normal pairs the true one is 6/pi asin(rho/2)."""
        source, true = draws(0, "ranks", str(rho), count), 6 / math.pi * math.asin(rho / 2)
        found = []
        for first, noise in source.normal(100, 2, count):
            (low, high), why = rank_interval((first, rho * first + math.sqrt(1 - rho**2) * noise))
            assert (low is None) == bool(why)
            found.append(low is None or low <= true <= high)
        assert np.mean(found) >= 0.9

    def test_it_is_far_narrower_than_everything(self):
        first, noise = draws(0, "narrow").normal(2, 40)
        (low, high), _ = rank_interval((first, first + 0.5 * noise))
        assert 0.5 < low < high < 1
        assert rank_interval((first, first + 0.5 * noise)) == rank_interval((first, first + 0.5 * noise))

    @pytest.mark.parametrize(
        ("first", "second", "why"),
        [
            (range(5), range(5), "5 pairs, 6 are needed"),
            (range(8), [1.0] * 8, "a constant series has no ranks"),
            (range(8), range(8), "resampled, it does not vary"),
        ],
    )
    def test_where_resampling_says_nothing_it_says_so(self, first, second, why):
        assert rank_interval((list(first), list(second))) == ((None, None), why)

    def test_samples_of_other_clusters_are_refused(self):
        with pytest.raises(ValueError, match="same clusters"):
            rank_interval(([1.0, 2.0], [1.0]))
