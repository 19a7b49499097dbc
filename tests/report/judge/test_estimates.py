import math
import operator
import random

import pytest

from leaklab.report.judge.comparisons import compare
from leaklab.report.judge.estimates import Estimate, Truth, estimate
from leaklab.report.judge.functions import FUNCTIONS
from leaklab.report.numbers.missing import NumberMissingError

A, B = Estimate(1.0, 0.5, 1.5), Estimate(2.0, 1.6, 2.4)
YES, NO, OPEN = Truth.of(True), Truth.of(False), Truth(True, False, True)


def test_a_difference_runs_from_low_minus_high_to_high_minus_low():
    difference = B - A
    assert (difference.value, difference.low, difference.high) == pytest.approx((1.0, 0.1, 1.9))


def test_two_points_of_one_curve_are_taken_low_with_low():
    first, last = (Estimate(one.value, one.low, one.high, "loss") for one in (B, A))
    difference = first - last
    assert (difference.low, difference.high) == pytest.approx((0.9, 1.1))
    assert (difference * 2).curve == "loss"
    other = Estimate(1.0, 0.5, 1.5, "another")
    assert ((first - other).low, (first - other).high) == pytest.approx((0.1, 1.9))


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

    def test_a_rank_correlation_of_numbers_with_intervals_decides_nothing(self):
        spearman = FUNCTIONS["spearman"]
        assert spearman([1, 2, 3], [2, 4, 9]) == Estimate.exact(1.0)
        assert spearman([A, B, 3], [2, 4, 9]) == Estimate(1.0, -1.0, 1.0)

    def test_a_slope_of_one_curve_is_that_of_its_ends(self):
        curve = [Estimate(y, y - 0.1, y + 0.2, "c") for y in (1.0, 2.0, 3.0)]
        assert FUNCTIONS["slope"]([0, 1, 2], curve).low == pytest.approx(1)
        assert FUNCTIONS["slope"]([0, 1, 2], [A, B, 3]).is_open

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
