import math
import operator
import random
from typing import ClassVar

import numpy as np
import pytest

from leaklab.metrics.statistics import summarise
from leaklab.records.draws import draws
from leaklab.report.judge.estimates import Estimate, Singles, Truth, estimate
from leaklab.report.judge.functions import FUNCTIONS
from leaklab.report.judge.intervals import compare
from leaklab.report.judge.terms import Term
from leaklab.report.numbers.words import NumberMissingError

A, B = Estimate(1.0, 0.5, 1.5), Estimate(2.0, 1.6, 2.4)
YES, NO, OPEN = Truth.of(True), Truth.of(False), Truth(True, False, True)


def test_a_difference_runs_from_low_minus_high_to_high_minus_low():
    difference = B - A
    assert (difference.value, difference.low, difference.high) == pytest.approx((1.0, 0.1, 1.9))


def measured_on(value, reach, origin="", values=None):
    return Estimate(value, value - reach, value + reach, (Term(reach, reach, origin, values),))


class TestSums:
    """What numbers share decides how their intervals add."""

    LUCK: ClassVar = {key: float(key % 5) for key in range(8)}

    def of_updates(self, shift, noise=0.0):
        values = {key: luck + shift + noise * (-1) ** key for key, luck in self.LUCK.items()}
        summary = summarise(list(values.values()))
        return measured_on(summary.mean, summary.ci_high - summary.mean, "mnist", values)

    def test_of_nothing_known_the_ends_are_taken_together(self):
        for one, other in ((measured_on(1, 0.3), measured_on(2, 0.4)), (A, B)):
            assert (one + other).high - (one + other).low == pytest.approx(one.high - one.low + other.high - other.low)

    def test_points_of_one_run_are_not_taken_low_with_low(self):
        first, last = measured_on(3, 1.0, "mnist"), measured_on(1, 1.0, "mnist")
        assert ((first - last).low, (first - last).high) == (0, 4)

    def test_of_different_data_sets_half_widths_add_in_squares(self):
        both = measured_on(1, 0.3, "mnist") - measured_on(2, 0.4, "cifar10")
        assert (both.value, both.low, both.high) == pytest.approx((-1, -1.5, -0.5))
        mean = FUNCTIONS["mean"]([measured_on(1, 0.3, "mnist"), measured_on(2, 0.4, "cifar10")])
        assert (mean.low, mean.high) == pytest.approx((1.25, 1.75))

    def test_of_the_same_updates_the_difference_is_paired(self):
        better, worse = self.of_updates(1.0, 0.1), self.of_updates(0.0)
        alone = better.high - better.low + worse.high - worse.low
        paired = better - worse
        expected = summarise([1 + 0.1 * (-1) ** key for key in self.LUCK])
        assert (paired.low, paired.high) == pytest.approx((expected.ci_low, expected.ci_high))
        assert paired.high - paired.low < 0.1 * alone
        assert (worse - worse).low == (worse - worse).high == 0
        assert ((better + worse) / 2 - worse).high == pytest.approx((paired / 2).high)

    def test_of_other_updates_it_is_not(self):
        one = measured_on(1, 0.3, "mnist", {0: 1.0, 1: 2.0})
        other, some = (measured_on(2, 0.4, "mnist", dict.fromkeys(keys, 2.0)) for keys in ((2, 3), (1, 2)))
        assert (one - other).high == pytest.approx(-0.5)
        assert (one - some).high == pytest.approx(-0.3)

    def test_what_hangs_together_by_a_third_is_not_independent(self):
        ends = [measured_on(0, 1, "m", dict.fromkeys(keys, 0.0)) for keys in ((0, 1), (2, 3), (1, 2))]
        assert FUNCTIONS["sum"](ends[:2]).high == pytest.approx(math.sqrt(2))
        assert FUNCTIONS["sum"](ends).high == pytest.approx(3)

    def test_the_size_of_a_number_of_one_sign_keeps_what_it_is_made_of(self):
        one, other = measured_on(-2, 0.3, "mnist"), measured_on(3, 0.4, "cifar10")
        assert (abs(one) + abs(other)).low == pytest.approx(4.5)
        unsure = measured_on(-0.1, 0.3, "mnist")
        assert (abs(unsure) + abs(other)).low == pytest.approx(3.1 - 0.5)


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_whatever_lies_in_the_intervals_lies_in_the_result(operation):
    draw = random.Random(operation.__name__)
    for _ in range(300):
        ends = [sorted(draw.uniform(-3, 3) for _ in range(3)) for _ in range(2)]
        left, right = (Estimate(middle, low, high) for low, middle, high in ends)
        result = operation(left, right)
        for _ in range(20):
            value = operation(*(draw.uniform(one.low, one.high) for one in (left, right)))
            assert result.low - 1e-9 <= value <= result.high + 1e-9


@pytest.mark.parametrize("name", ["mean", "median", "max", "min", "sum"])
def test_a_statistic_of_a_list_holds_that_of_every_choice(name):
    draw = random.Random(name)
    for _ in range(200):
        chosen = [sorted(draw.uniform(-3, 3) for _ in range(3)) for _ in range(4)]
        result = FUNCTIONS[name]([Estimate(middle, low, high) for low, middle, high in chosen])
        inside = FUNCTIONS[name]([Estimate.exact(draw.uniform(low, high)) for low, _, high in chosen])
        assert result.low - 1e-9 <= inside.value <= result.high + 1e-9


def test_the_size_of_a_number_that_may_have_either_sign_may_be_zero():
    assert abs(Estimate(-0.5, -1.0, 0.2)) == Estimate(0.5, 0.0, 1.0)
    assert abs(Estimate(-2.0, -3.0, -1.0)) == Estimate(2.0, 1.0, 3.0)


def test_an_open_number_stays_open():
    for result in (Estimate.open(1.0) - A, Estimate.open(1.0) * 0.7, 10 * Estimate.open(1.0), -Estimate.open(1.0)):
        assert result.is_open
    assert (Estimate.open(1.0) * 0).value == 0
    assert (A / Estimate(0.5, -0.5, 1.0)).is_open


def test_a_capped_number_beats_none_and_is_beaten_by_all():
    capped = Estimate.exact(math.inf)
    assert compare("<", A, capped).truth == YES
    assert compare("<", capped, A).truth == NO
    with pytest.raises(NumberMissingError):
        capped - capped


@pytest.mark.parametrize(
    ("symbol", "left", "right", "truth"),
    [
        ("<", A, B, YES),
        (">", A, B, NO),
        ("<", A, 1.2, OPEN),
        ("<=", A, 1.5, YES),
        ("<", A, 1.5, OPEN),
        (">=", A, 1.5, Truth(False, False, True)),
        (">", A, 1.5, NO),
        ("==", A, 1, OPEN),
        ("==", A, 3, NO),
        ("==", estimate(3), 3, YES),
        ("!=", A, 3, YES),
    ],
)
def test_a_comparison_is_decided_where_its_difference_does_not_hold_zero(symbol, left, right, truth):
    assert compare(symbol, left, right).truth == truth


def test_a_truth_that_is_not_sure_is_no_plain_truth():
    with pytest.raises(TypeError, match="plain true or false"):
        bool(OPEN)
    assert Truth(False, False, True) == ~OPEN
    assert estimate(OPEN) == Estimate(1, 0, 1)


class TestFunctions:
    def test_all_and_any_with_doubt(self):
        assert FUNCTIONS["all"]([YES, OPEN]) == OPEN
        assert FUNCTIONS["all"]([NO, OPEN]) == NO
        assert FUNCTIONS["any"]([YES, OPEN]) == YES
        assert FUNCTIONS["any"]([NO, OPEN]) == OPEN

    def test_a_share_has_clopper_and_pearsons_interval_and_needs_six_trials(self):
        share = FUNCTIONS["share"]
        one_of_ten = share([OPEN] + [NO] * 9)
        assert (one_of_ten.value, one_of_ten.low, one_of_ten.high) == pytest.approx((0.1, 0.0025, 0.4450), abs=1e-4)
        assert share([NO] * 6).low == 0
        assert share([YES] * 5).is_open

    def test_a_rank_correlation_of_numbers_without_single_values_decides_nothing_and_says_why(self):
        spearman = FUNCTIONS["spearman"]
        assert spearman([1, 2, 3], [2, 4, 9]) == Estimate.exact(1.0)
        found = spearman([A, B, 3], [2, 4, 9])
        assert found == Estimate(1.0, -1.0, 1.0)
        assert "no single values" in abs(found).why

    def cells(self, slope, updates=20, seed=0):
        """Five cells whose numbers rise by a slope, each the mean of the same updates, whose noise is of size one."""
        source = draws(seed, "cells", str(slope))
        rows = source.normal(5, updates) + slope * np.arange(5)[:, None]
        return [Estimate(row.mean(), -9, 9, singles=Singles(dict(enumerate(row.tolist())))) for row in rows]

    def test_a_rank_correlation_of_cells_is_resampled_over_their_updates(self):
        spearman = FUNCTIONS["spearman"]
        rising = self.cells(0.6)
        sure = spearman(rising, self.cells(0.7))
        assert 0.5 < sure.low < sure.value <= sure.high <= 1
        unsure = [spearman(rising, self.cells(0.0, seed=seed)) for seed in range(8)]
        assert np.mean([one.high - one.low for one in unsure]) > 2 * (sure.high - sure.low)
        assert np.mean([one.low < 0 < one.high for one in unsure]) >= 0.5
        assert "not of the same updates" in spearman(rising, self.cells(0.7, updates=12)).why
        assert "3 pairs, 6 are needed" in spearman(self.cells(0.6, updates=3), self.cells(0.7, updates=3)).why

    def test_a_slope_is_as_unsure_as_its_heights_together(self):
        heights = [Estimate(y, y - 0.1, y + 0.2) for y in (1.0, 2.0, 3.0)]
        slope = FUNCTIONS["slope"]([0, 1, 2], heights)
        assert (slope.low, slope.high) == pytest.approx((1 - 0.15, 1 + 0.15))
        assert FUNCTIONS["slope"]([0, A, 2], heights).is_open
        assert FUNCTIONS["slope"]([0, 1, 2], [1, Estimate.open(2.0), 3]).is_open

    def test_the_place_of_the_lowest_is_every_place_that_may_be(self):
        heights = [Estimate(3.0, 2.5, 3.5), Estimate(1.0, 0.5, 1.5), Estimate(1.6, 1.2, 2.0)]
        assert FUNCTIONS["at_lowest"]([-1, 0, 1], heights) == Estimate(0, 0, 1)

    def test_logarithm_of_a_list(self):
        one, e = FUNCTIONS["log"]([Estimate(1.0, -1.0, 2.0), math.e])
        assert (one.value, one.low) == (0, -math.inf)
        assert e.value == pytest.approx(1)

    def test_rounds_to_a_part_of_the_drop(self):
        assert FUNCTIONS["rounds_to"]([10, 8, 4, 2, 0], 0.5).value == 2
        assert FUNCTIONS["rounds_to"]([10, 8, 4, 2, 0], 1.0).value == 4
        assert FUNCTIONS["rounds_to"]([Estimate(10, 9, 11), 8, 0], 0.5).is_open
