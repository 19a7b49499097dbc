import math
from dataclasses import replace

import pytest
from scipy import stats

from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.intervals import exact_share, measured, plain_number, share, spread
from leaklab.report.numbers.results import ResultRow


def row(value=2.0, **more):
    return ResultRow("lrp", "table1", more.pop("row", {"m": "a"}), "acc", value, **{"better": "higher", **more})


def ends(number):
    return number.low, number.high


def test_a_number_that_is_no_sample_is_taken_as_it_is():
    assert measured(row()).number == Estimate.exact(2.0)


def test_the_interval_of_the_table_goes_first():
    found = measured(row(n=3, std=9.0, ci_low=1.5, ci_high=2.2))
    assert (ends(found.number), found.doubt) == ((1.5, 2.2), "")


def test_an_interval_holds_its_number():
    assert ends(measured(row(n=3, std=9.0, ci_low=2.5, ci_high=3.0)).number) == (2.0, 3.0)


def test_without_one_it_reaches_as_far_as_students_t():
    reach = stats.t.ppf(0.975, 2) * 0.3 / math.sqrt(3)
    assert ends(measured(row(n=3, std=0.3)).number) == pytest.approx((2 - reach, 2 + reach))


def test_whole_numbers_lie_between_whole_numbers():
    assert ends(measured(row(3.0, n=3, std=0.577, unit="rounds")).number) == (2, 4)


@pytest.mark.parametrize(
    ("n", "attacker", "updates", "doubt"),
    [
        (1, "", 1, "one seed"),
        (2, "", 2, ""),
        (40, "paper", 5, "5 independent updates, 6 are needed"),
        (40, "knowing", 1, "1 independent update, 6 are needed"),
        (6, "paper", 6, ""),
    ],
)
def test_one_seed_or_fewer_than_six_updates_bound_nothing(n, attacker, updates, doubt):
    found = measured(row(n=n, clusters=updates, std=0.1, ci_low=1.9, ci_high=2.1, attacker=attacker))
    assert (found.doubt, found.number.is_open) == (doubt, bool(doubt))


def test_a_sample_without_any_spread_bounds_nothing():
    assert measured(row(n=10)).number.is_open


def test_a_capped_cell_is_worse_than_all_others_and_an_absent_one_is_no_number():
    capped = row(None, n=3, note="capped: 3 of 3 runs did not get there")
    assert measured(capped).number.value == -math.inf
    lower = row(None, n=3, note="capped: 3 of 3 runs did not get there", better="lower")
    assert measured(lower).number.value == math.inf
    assert measured(row(None, n=0, note="not run: data not here")) is None
    assert measured(row(None, n=3, note="diverged: all 3 runs")) is None


def test_the_interval_of_a_spread_is_that_of_the_chi_squared_law():
    low, high = (math.sqrt(2 / stats.chi2.ppf(level, 2)) for level in (0.975, 0.025))
    assert ends(spread(1.0, 3)) == pytest.approx((low, high))


def test_a_share_stays_between_none_and_all():
    assert 0 <= share(0, 7).low <= share(0, 7).high <= 1
    assert share(7, 7).high == pytest.approx(1)


# ends from tables of the binomial law: (1 - x)^n = 2.5 % where none or all are hits
@pytest.mark.parametrize(
    ("value", "updates", "low", "high"),
    [
        (0.0, 12, 0.0, 0.2646),
        (1.0, 6, 0.5407, 1.0),
        (1.0, 20, 0.8316, 1.0),
        (1.0, 40, 0.9119, 1.0),
        (0.1, 10, 0.0025, 0.4450),
    ],
)
def test_a_share_of_updates_has_clopper_and_pearsons_interval(value, updates, low, high):
    assert ends(exact_share(value, updates)) == pytest.approx((low, high), abs=1e-4)


def test_a_share_of_fewer_than_six_updates_is_open():
    assert exact_share(1.0, 5).is_open
    assert not exact_share(1.0, 6).is_open


def test_batches_with_some_hits_are_no_zeros_and_ones():
    zeros_and_ones = math.sqrt(0.75 * 0.25 * 8 / 7)
    assert exact_share(0.75, 8, zeros_and_ones) == exact_share(0.75, 8)
    low, high = ends(exact_share(0.75, 8, 0.2))
    assert low < exact_share(0.75, 8).low < exact_share(0.75, 8).high < high < 1
    assert ends(exact_share(0.7333, 8)) == pytest.approx(ends(exact_share(0.7333, 8, 0.2)))


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_what_is_no_share_has_no_interval_of_one(value):
    with pytest.raises(ValueError, match="is no"):
        exact_share(value, 10)


@pytest.mark.parametrize("key", ["selection", "difference"])
def test_references_and_differences_are_of_attacks(key):
    beside = {"row": {"m": "a", key: "x"}, "n": 40, "std": 0.1}
    assert measured(row(**beside, clusters=5)).doubt == "5 independent updates, 6 are needed"
    assert measured(row(**beside, clusters=6)).doubt == ""


def test_the_clusters_count_and_not_the_values():
    reach = stats.t.ppf(0.975, 7) * 0.3 / math.sqrt(8)
    found = measured(row(n=32, clusters=8, std=0.3, attacker="paper"))
    assert ends(found.number) == pytest.approx((2 - reach, 2 + reach))


def test_a_share_has_its_exact_interval_whatever_the_table_says():
    point = {"n": 8, "clusters": 8, "std": 0.0, "ci_low": 1.0, "ci_high": 1.0, "attacker": "paper"}
    for metric in ("exact_share", "label_correct_mean", "label_recovery"):
        assert ends(measured(replace(row(1.0, **point), metric=metric)).number) == ends(exact_share(1.0, 8))
    for other in ({"metric": "label_correct_median"}, {"metric": "acc"}):
        assert ends(measured(replace(row(1.0, **point), **other)).number) == (1, 1)
    few = measured(replace(row(1.0, **{**point, "clusters": 5}), metric="exact_share"))
    assert few.number.is_open
    assert few.doubt


def of_difference(value, low, high, metric="token_recovery_mean", std=0.2):
    cells = {"n": 8, "clusters": 8, "std": std, "ci_low": low, "ci_high": high, "attacker": "paper"}
    return measured(ResultRow("lrp", "table1", {"difference": "attack - best guess"}, metric, value, **cells))


def test_a_difference_of_shares_that_are_all_equal_says_so():
    for metric in ("token_recovery_mean", "exact_share", "label_recovery_median"):
        found = of_difference(0.0, 0.0, 0.0, metric, std=0.0)
        assert found.number.is_open
        assert "equal" in found.doubt
    assert ends(of_difference(0.0, 0.0, 0.0, "psnr", std=0.0).number) == (0.0, 0.0)


def test_a_difference_of_shares_whose_interval_leaves_where_it_can_be_says_so():
    for low, high in ((0.7, 1.1), (-1.2, 0.9)):
        found = of_difference(0.8, low, high)
        assert found.number.is_open
        assert "leaves -1 to 1" in found.doubt
    assert ends(of_difference(0.8, 0.7, 1.1, "psnr").number) == (0.7, 1.1)


def test_a_difference_of_shares_may_be_negative():
    assert ends(of_difference(-0.3, -0.5, -0.1, "exact_share").number) == (-0.5, -0.1)


@pytest.mark.parametrize(
    "own",
    [
        row(), row(n=3, std=9.0, ci_low=1.5, ci_high=2.2), row(n=3, std=0.3), row(3.0, n=3, std=0.577, unit="rounds"),
        row(n=10), row(0.5, n=6, clusters=6, std=0.5, attacker="paper"), row(None), row(None, note="capped: 3"),
        row(None, note="capped: 3", better="lower"),
    ],
)  # fmt: skip
def test_the_plain_number_is_that_of_the_interval(own):
    found = measured(own)
    assert plain_number(own) == (None if found is None else found.number.value)
