import math
from pathlib import Path

import pytest
from scipy import stats

from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.intervals import SHARES, exact_share, measured, share, sign_test, spread
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


def test_the_sign_test_asks_for_nine_of_ten_and_cannot_be_passed_by_five():
    assert [sign_test(cases) for cases in (0, 1, 5, 6, 8, 10, 20)] == [None, None, None, 6, 8, 9, 15]
    for cases in (6, 10, 20):
        needed = sign_test(cases)
        assert stats.binom.sf(needed - 1, cases, 0.5) <= 0.025 < stats.binom.sf(needed - 2, cases, 0.5)


def test_a_share_stays_between_none_and_all():
    assert 0 <= share(0, 7).low <= share(0, 7).high <= 1
    assert share(7, 7).high == pytest.approx(1)


@pytest.mark.parametrize("key", ["selection", "difference"])
def test_references_and_differences_are_of_attacks(key):
    beside = {"row": {"m": "a", key: "x"}, "n": 40, "std": 0.1}
    assert measured(row(**beside, clusters=5)).doubt == "5 independent updates, 6 are needed"
    assert measured(row(**beside, clusters=6)).doubt == ""


def test_the_clusters_count_and_not_the_values():
    reach = stats.t.ppf(0.975, 7) * 0.3 / math.sqrt(8)
    found = measured(row(n=32, clusters=8, std=0.3, attacker="paper"))
    assert ends(found.number) == pytest.approx((2 - reach, 2 + reach))


@pytest.mark.parametrize("clusters", [6, 8, 12, 20, 40])
def test_an_exact_share_is_that_of_clopper_and_pearson_and_has_a_width(clusters):
    for count in range(clusters + 1):
        found = exact_share(count / clusters, clusters)
        known = stats.binomtest(count, clusters).proportion_ci(method="exact")
        assert ends(found) == pytest.approx((known.low, known.high), abs=1e-12)
        assert 0 <= found.low < found.high <= 1


@pytest.mark.parametrize("clusters", [6, 12, 40])
@pytest.mark.parametrize("chance", [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0])
def test_an_exact_share_covers_its_chance_at_95_percent(clusters, chance):
    counts = range(clusters + 1)
    inside = [found.low - 1e-12 <= chance <= found.high + 1e-12
              for found in (exact_share(count / clusters, clusters) for count in counts)]  # fmt: skip
    assert sum(stats.binom.pmf(count, clusters, chance) for count in counts if inside[count]) >= 0.95


@pytest.mark.parametrize(("value", "clusters"), [(0.75, 6), (0.84375, 12), (1.2, 10), (-0.1, 10)])
def test_what_is_no_count_of_outcomes_has_no_exact_interval(value, clusters):
    assert exact_share(value, clusters) is None


def of_share(value, low, high):
    cells = {"n": 20, "clusters": 20, "std": 0.0, "attacker": "paper", "ci_low": low, "ci_high": high}
    return measured(ResultRow("lrp", "table1", {}, "exact_share", value, **cells))


def test_a_share_without_a_width_or_outside_0_to_1_has_the_exact_interval():
    for value, low, high in ((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (0.95, 0.84, 1.05)):
        found = of_share(value, low, high)
        known = stats.binomtest(round(20 * value), 20).proportion_ci(method="exact")
        assert ends(found.number) == pytest.approx((known.low, known.high))
    assert ends(of_share(0.5, 0.25, 0.75).number) == (0.25, 0.75)


def test_a_share_that_is_no_count_is_unbounded_where_its_interval_is_none():
    found = of_share(0.84, 0.6, 1.08)
    assert found.number.is_open
    assert "no count" in found.doubt


def test_a_difference_of_shares_that_are_all_equal_says_so():
    cells = {"n": 8, "clusters": 8, "std": 0.0, "ci_low": 0.0, "ci_high": 0.0, "attacker": "paper"}
    rows = [ResultRow("lrp", "table1", {"difference": "attack - best guess"}, name, 0.0, **cells)
            for name in ("token_recovery_mean", "psnr")]  # fmt: skip
    shares, decibels = map(measured, rows)
    assert shares.number.is_open
    assert "equal" in shares.doubt
    assert ends(decibels.number) == (0.0, 0.0)


def test_a_difference_of_shares_may_be_negative():
    cells = {"n": 8, "clusters": 8, "std": 0.2, "ci_low": -0.5, "ci_high": -0.1, "attacker": "paper"}
    found = measured(ResultRow("lrp", "table1", {"difference": "knowing - paper"}, "exact_share", -0.3, **cells))
    assert ends(found.number) == (-0.5, -0.1)


def test_every_metric_that_is_a_share_of_its_images_is_known_as_one():
    """Their cards say so: ``mean over the images: the share of them``."""
    folder = Path(__file__).parents[3] / "src/leaklab/metrics"
    names = {path.stem for path in folder.glob("*.py") if "the share of them" in path.read_text(encoding="utf-8")}
    assert names
    assert names <= set(SHARES)
