from dataclasses import replace

import pytest

from leaklab.metrics.statistics import summarise
from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.numbers.words import NumberMissingError


def row(keys, value, metric="acc", item="table1", **more):
    return ResultRow("lrp", item, keys, metric, value, **{"better": "higher", **more})


TABLE = ResultTable(
    (
        row({"m": "a", "p": False}, 1.0, std=0.1),
        row({"m": "a", "p": True}, 1.5, std=0.2),
        row({"m": "b", "p": False}, 4.0),
        row({"m": "b", "p": True}, 3.0),
        row({"m": "a", "p": True}, 9.0, attacker="knowing"),
        row({"m": "a", "p": True}, 7.0, variant="partition-seed=3"),
        row({"m": "a", "p": True, "selection": "oracle"}, 8.0),
        row({"m": "a"}, None, metric="capped"),
        row({"m": "a"}, 2.0, metric="mse", better="lower"),
        row({"m": "b"}, 5.0, metric="mse", better="lower"),
        row({"m": "a"}, 1.0, metric="nothing", better=""),
    )
)


def of(table, *printed, **more):
    return Evidence(Indexed(table), *printed, **more)


def exact(*numbers):
    return [Estimate.exact(number) for number in numbers]


def plain(pairs):
    return [(keys, number.value) for keys, number in pairs]


@pytest.fixture
def evidence():
    return of(TABLE)


def test_one_value_and_its_spread(evidence):
    assert evidence.T("table1", "acc", m="a", p=True) == Estimate.exact(1.5)
    assert evidence.sd("table1", "acc", m="a", p=False) == Estimate.exact(0.1)


def test_all_values_of_a_partial_match(evidence):
    assert plain(evidence.V("table1", "acc", p=False)) == [({"m": "a", "p": False}, 1.0), ({"m": "b", "p": False}, 4.0)]


def test_the_knowing_attacker_only_on_request(evidence):
    assert evidence.T("table1", "acc", m="a", p=True, attacker="knowing").value == 9.0


def test_a_selection_only_on_request(evidence):
    assert evidence.T("table1", "acc", m="a", selection="oracle").value == 8.0


def test_one_draw_sees_its_own_rows_only():
    assert plain(of(TABLE, variant="partition-seed=3").V("table1", "acc")) == [({"m": "a", "p": True}, 7.0)]


def test_the_knowing_attacker_may_be_the_papers():
    keys, paper, knowing = {"m": "a", "image": 3}, {"attacker": "paper", "runs": ("p",)}, {"attacker": "knowing"}
    table = of(ResultTable((
        row(keys, 2.0, **paper),
        row({"m": "a"}, 2.0, metric="acc_median", **paper),
        row({"m": "a", "by": "x"}, 2.0, metric="acc_median", **knowing, runs=("p",)),
    )))  # fmt: skip
    assert table.T("table1", "acc", m="a", attacker="knowing").value == 2.0
    assert table.T("table1", "acc_median", m="a", attacker="knowing").value == 2.0


def test_rows_beside_the_attackers_are_seen_only_by_those_who_name_their_key():
    table = of(ResultTable(tuple(row({"m": "a", key: "x"}, 1.0) for key in ("selection", "tried", "difference"))))
    for key in ("selection", "tried", "difference"):
        assert table.T("table1", "acc", **{key: "x"}).value == 1.0
    with pytest.raises(NumberMissingError):
        table.T("table1", "acc", m="a")


def test_a_number_decides_nothing_where_too_little_stands_behind_it():
    table = ResultTable((row({"m": "a"}, 1.0, n=1), row({"m": "b"}, 1.0, n=3, std=0.1)))
    evidence = of(table)
    assert evidence.T("table1", "acc", m="a").is_open
    assert not evidence.T("table1", "acc", m="b").is_open
    assert evidence.doubts == {"table1": "one seed"}
    assert of(table, as_they_are=True).T("table1", "acc", m="a") == Estimate.exact(1.0)


def test_a_capped_cell_is_a_number_worse_than_all_others():
    capped = row({"m": "a"}, None, metric="rounds", better="lower", note="capped: 3 of 3 runs")
    evidence = of(ResultTable((capped, row({"m": "b"}, 7.0, metric="rounds", better="lower"))))
    assert evidence.T("table1", "rounds", m="a").value == float("inf")
    assert [number.value for _, number in evidence.V("table1", "rounds")] == [float("inf"), 7.0]
    assert evidence.D("table1", "rounds", "m", "b", "a") == [({}, Estimate.exact(float("inf")))]


def test_a_stand_in_says_so_for_every_metric_that_it_stands_in_for():
    table = ResultTable((row({"m": "a"}, 1.0, metric="squeeze"), row({"m": "a"}, 2.0, metric="squeeze_median")))
    evidence = of(table, stand_ins={"vgg": "squeeze", "alex": "squeeze"})
    for metric in ("vgg", "alex"):
        assert evidence.T("table1", metric, m="a").value == 1.0
    assert evidence.T("table1", "vgg_median", m="a").value == 2.0
    first, second = evidence.touched
    assert first.substitutes == ("squeeze in place of vgg", "squeeze in place of alex")
    assert second.substitutes == ("squeeze_median in place of vgg_median",)


def test_differences_pair_the_rest_of_the_row(evidence):
    assert plain(evidence.D("table1", "acc", "p", False, True)) == [({"m": "a"}, 0.5), ({"m": "b"}, -1.0)]


def test_a_series_is_ordered_by_index():
    rows = [row({"method": "x", "index": i}, float(v), metric="loss") for i, v in ((2, 5), (0, 9), (1, 7))]
    assert of(ResultTable(tuple(rows))).S("table1", "loss", method="x") == exact(9.0, 7.0, 5.0)


def test_a_curve_and_the_number_after_its_end_have_one_name():
    rows = [row({"m": "x", "index": i}, float(i), metric="loss") for i in range(3)]
    both = of(ResultTable((*rows, row({"m": "x"}, 9.0, metric="loss"))))
    assert [point.value for point in both.S("table1", "loss", m="x")] == [0, 1, 2]
    assert both.T("table1", "loss", m="x").value == 9
    assert plain(both.V("table1", "loss")) == [({"m": "x"}, 9)]


def test_a_number_that_was_not_run_says_why():
    note = "not run: data not here"
    absent = of(ResultTable((*TABLE.rows, row({"m": "c", "p": True}, None, note=note),
                                   row({"m": "c", "p": False}, 1.0))))  # fmt: skip
    with pytest.raises(NumberMissingError, match=note) as error:
        absent.T("table1", "acc", m="c", p=True)
    assert error.value.short == note
    *_, (keys, difference) = absent.D("table1", "acc", "p", False, True)
    assert keys == {"m": "c"}
    with pytest.raises(NumberMissingError, match=note):
        assert difference > 0


def test_two_series_at_once_are_refused():
    rows = [row({"method": name, "index": 0}, 1.0, metric="loss") for name in ("x", "y")]
    with pytest.raises(NumberMissingError, match="name more keys"):
        of(ResultTable(tuple(rows))).S("table1", "loss")


def test_what_was_asked_is_remembered_once(evidence):
    evidence.T("table1", "acc", m="a", p=True)
    evidence.T("table1", "acc", m="a", p=True)
    evidence.T("table1", "mse", m="b")
    assert [(r.metric, r.value) for r in evidence.touched] == [("acc", 1.5), ("mse", 5.0)]


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda e: e.T("table9", "acc"), "table9 has no results at this scale"),
        (lambda e: e.T("table1", "acc", m="c", p=True), 'no acc for {"m": "c", "p": true}'),
        (lambda e: e.T("table1", "acc", m="a"), "2 rows"),
        (lambda e: e.T("table1", "capped", m="a"), "no number"),
        (lambda e: e.V("table1", "acc", m="c"), "no acc"),
        (lambda e: e.sd("table1", "acc", m="b", p=True), "no spread"),
        (lambda e: e.S("table1", "loss"), "no loss"),
        (lambda e: e.D("table1", "acc", "p", False, "maybe"), "no acc with p=maybe"),
        (lambda e: e.T("table1", "acc", m="a", p=1), "no acc"),
    ],
)
def test_a_missing_number_is_named(evidence, ask, reason):
    with pytest.raises(NumberMissingError) as error:
        ask(evidence)
    assert reason in str(error.value)


def test_a_table_with_a_printed_row_missing_answers_no_question_about_the_whole():
    printed = ResultTable((*TABLE.rows[:4], row({"m": "c", "p": False}, 2.0)))
    evidence = of(TABLE, printed)
    with pytest.raises(NumberMissingError, match='"m": "c"'):
        evidence.V("table1", "acc")
    assert evidence.T("table1", "acc", m="b", p=True).value == 3.0


def test_a_difference_that_print_has_must_be_there():
    half = ResultTable(TABLE.rows[:3])
    (_, there), (row_without, missing) = of(half, TABLE).D("table1", "acc", "p", False, True)
    assert (there.value, row_without) == (0.5, {"m": "b"})
    with pytest.raises(NumberMissingError, match="p=True"):
        assert missing > 0
    with pytest.raises(NumberMissingError, match="p=False"):
        of(ResultTable(TABLE.rows[1:2]), TABLE).D("table1", "acc", "p", False, True)


def test_a_difference_lost_in_print_is_not_asked_for():
    printed = ResultTable((*TABLE.rows[:3], row({"m": "b", "p": True}, None)))
    assert plain(of(printed, printed).D("table1", "acc", "p", False, True)) == [({"m": "a"}, 0.5)]


class TestSingleValues:
    """Two settings of the same eight images, whose own difficulty is far larger than what sets the two apart."""

    LUCK = (1.0, 9.0, 4.0, 7.0, 2.0, 8.0, 3.0, 6.0)

    def results(self, unit="image", a_shift=0.5, only=8, metric="psnr_mean"):
        rows = []
        for name, shift in (("a", a_shift), ("b", 0.0)):
            values = [luck + shift + 0.1 * (place % 2) * shift for place, luck in enumerate(self.LUCK)]
            found = summarise(values)
            ends = {"std": found.std, "ci_low": found.ci_low, "ci_high": found.ci_high, "n": 8, "clusters": 8}
            shared = {"attacker": "paper", "runs": (f"run-{name}",)}
            rows.append(row({"m": name}, found.mean, metric, **ends, **shared))
            own = metric.removesuffix("_mean")
            rows += [
                row({"m": name, unit: place}, value, own, n=1, clusters=1, **shared)
                for place, value in enumerate(values[:only])
            ]
        return ResultTable(tuple(rows))

    def difference(self, table, metric="psnr_mean"):
        evidence = of(table)
        return evidence.T("table1", metric, m="a") - evidence.T("table1", metric, m="b")

    def test_of_the_same_images_the_difference_is_paired(self):
        paired = self.difference(self.results())
        assert 0.4 < paired.low < paired.high < 0.7

    def test_single_updates_pair_too_and_do_not_stand_in_the_way_of_the_summary(self):
        paired = self.difference(self.results("update", metric="psnr"), "psnr")
        assert 0.4 < paired.low < paired.high < 0.7
        assert len(of(self.results("update", metric="psnr")).V("table1", "psnr", m="a")) == 1

    def test_where_some_are_missing_or_are_not_behind_the_number_nothing_is_paired(self):
        for table in (self.results(only=7), ResultTable(tuple(
            replace(one, value=one.value + 1) if "image" in one.row else one for one in self.results().rows
        ))):  # fmt: skip
            assert self.difference(table).low < -3

    def test_ranks_are_resampled_over_the_images(self):
        number = of(self.results()).T("table1", "psnr_mean", m="a")
        assert sorted(number.singles.values) == [f"image {place}" for place in range(8)]
        assert not number.singles.median
