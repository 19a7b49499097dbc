import math

import pytest
from scipy import stats

from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.intervals import measured, share, sign_test, spread
from leaklab.report.numbers.results import ResultRow, ResultTable


def row(value=2.0, **more):
    return ResultRow("lrp", "table1", more.pop("row", {"m": "a"}), "acc", value, **{"better": "higher", **more})


def ends(number):
    return number.low, number.high


def test_a_number_that_is_no_sample_is_taken_as_it_is():
    assert measured(row(), 0).number == Estimate.exact(2.0)


def test_the_interval_of_the_table_goes_first():
    found = measured(row(n=3, std=9.0, ci_low=1.5, ci_high=2.2), 0)
    assert (ends(found.number), found.doubt) == ((1.5, 2.2), "")


def test_an_interval_holds_its_number():
    assert ends(measured(row(n=3, std=9.0, ci_low=2.5, ci_high=3.0), 0).number) == (2.0, 3.0)


def test_without_one_it_reaches_as_far_as_students_t():
    reach = stats.t.ppf(0.975, 2) * 0.3 / math.sqrt(3)
    assert ends(measured(row(n=3, std=0.3), 0).number) == pytest.approx((2 - reach, 2 + reach))


def test_whole_numbers_lie_between_whole_numbers():
    assert ends(measured(row(3.0, n=3, std=0.577, unit="rounds"), 0).number) == (2, 4)


@pytest.mark.parametrize(
    ("n", "attacker", "updates", "doubt"),
    [
        (1, "", 0, "one seed"),
        (2, "", 0, ""),
        (40, "paper", 5, "5 independent updates, 6 are needed"),
        (40, "knowing", 1, "1 independent update, 6 are needed"),
        (6, "paper", 6, ""),
    ],
)
def test_one_seed_or_fewer_than_six_updates_bound_nothing(n, attacker, updates, doubt):
    found = measured(row(n=n, std=0.1, ci_low=1.9, ci_high=2.1, attacker=attacker), updates)
    assert (found.doubt, found.number.is_open) == (doubt, bool(doubt))


def test_a_sample_without_any_spread_bounds_nothing():
    assert measured(row(n=10), 0).number.is_open


def test_a_capped_cell_is_worse_than_all_others_and_an_absent_one_is_no_number():
    capped = row(None, n=3, note="capped: 3 of 3 runs did not get there")
    assert measured(capped, 0).number.value == -math.inf
    lower = row(None, n=3, note="capped: 3 of 3 runs did not get there", better="lower")
    assert measured(lower, 0).number.value == math.inf
    assert measured(row(None, n=0, note="not run: data not here"), 0) is None
    assert measured(row(None, n=3, note="diverged: all 3 runs"), 0) is None


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


class TestUpdates:
    def single(self, image, **more):
        return ResultRow("lrp", "figure6", {"image": image, **more}, "psnr", 1.0, n=1, attacker="paper")

    def summary(self, n=8, **more):
        return ResultRow("lrp", "figure6", more, "psnr_median", 1.0, n=n, attacker="paper")

    def test_draws_of_one_image_count_once(self):
        rows = [self.single(image, draw=draw, defense="lrp") for image in (1, 2) for draw in (0, 1, 2)]
        assert Indexed(ResultTable(tuple(rows))).updates(self.summary(defense="lrp"), 1) == 2

    def test_images_of_one_update_count_once(self):
        rows = [self.single(image, draw=0, defense="lrp") for image in range(8)]
        assert Indexed(ResultTable(tuple(rows))).updates(self.summary(defense="lrp"), 4) == 2

    def test_settings_are_counted_on_their_own(self):
        rows = [self.single(image, defense="lrp" if image else "none") for image in range(8)]
        table = Indexed(ResultTable(tuple(rows)))
        assert [table.updates(self.summary(defense=name), 1) for name in ("none", "lrp")] == [1, 7]

    def test_without_single_images_the_table_says_how_many(self):
        assert Indexed(ResultTable()).updates(self.summary(10), 1) == 10

    def test_a_single_image_is_one_update(self):
        assert Indexed(ResultTable()).updates(self.single(3), 1) == 1
