import math

import pytest

from leaklab.report.judge.evidence import Evidence, UntestableError, log, rounds_to
from leaklab.report.numbers.results import ResultRow, ResultTable


def row(keys, value, metric="acc", item="table1", **more):
    return ResultRow("lrp", item, keys, metric, value, **{"better": "higher", **more})


TABLE = ResultTable(
    (
        row({"m": "a", "p": False}, 1.0, std=0.1),
        row({"m": "a", "p": True}, 1.5, std=0.2),
        row({"m": "b", "p": False}, 4.0),
        row({"m": "b", "p": True}, 3.0),
        row({"m": "a", "p": True}, 9.0, attacker="adaptive"),
        row({"m": "a", "p": True}, 7.0, variant="partition-seed=3"),
        row({"m": "a", "p": True, "selection": "oracle"}, 8.0),
        row({"m": "a"}, None, metric="capped"),
        row({"m": "a"}, 2.0, metric="mse", better="lower"),
        row({"m": "b"}, 5.0, metric="mse", better="lower"),
        row({"m": "a"}, 1.0, metric="nothing", better=""),
    )
)


@pytest.fixture
def evidence():
    return Evidence(TABLE)


def test_one_value_and_its_spread(evidence):
    assert evidence.T("table1", "acc", m="a", p=True) == 1.5
    assert evidence.sd("table1", "acc", m="a", p=False) == 0.1


def test_all_values_of_a_partial_match(evidence):
    assert evidence.V("table1", "acc", p=False) == [({"m": "a", "p": False}, 1.0), ({"m": "b", "p": False}, 4.0)]


def test_the_adaptive_attacker_only_on_request(evidence):
    assert evidence.T("table1", "acc", m="a", p=True, attacker="adaptive") == 9.0


def test_a_selection_only_on_request(evidence):
    assert evidence.T("table1", "acc", m="a", selection="oracle") == 8.0


def test_one_draw_sees_its_own_rows_only():
    assert Evidence(TABLE, variant="partition-seed=3").V("table1", "acc") == [({"m": "a", "p": True}, 7.0)]


def test_best_and_worst_follow_the_direction(evidence):
    assert evidence.best("table1", "acc") == {"m": "b", "p": False}
    assert evidence.worst("table1", "acc") == {"m": "a", "p": False}
    assert evidence.best("table1", "mse") == {"m": "a"}
    assert evidence.worst("table1", "mse") == {"m": "b"}


def test_differences_pair_the_rest_of_the_row(evidence):
    assert evidence.D("table1", "acc", "p", False, True) == [({"m": "a"}, 0.5), ({"m": "b"}, -1.0)]


def test_a_series_is_ordered_by_index():
    rows = [row({"method": "x", "index": i}, float(v), metric="loss") for i, v in ((2, 5), (0, 9), (1, 7))]
    assert Evidence(ResultTable(tuple(rows))).S("table1", "loss", method="x") == [9.0, 7.0, 5.0]


def test_a_curve_and_the_number_after_its_end_have_one_name():
    rows = [row({"m": "x", "index": i}, float(i), metric="loss") for i in range(3)]
    both = Evidence(ResultTable((*rows, row({"m": "x"}, 9.0, metric="loss"))))
    assert both.S("table1", "loss", m="x") == [0, 1, 2]
    assert both.T("table1", "loss", m="x") == 9
    assert both.V("table1", "loss") == [({"m": "x"}, 9)]


def test_a_number_that_was_not_run_says_why():
    note = "not run: data not here"
    absent = Evidence(ResultTable((*TABLE.rows, row({"m": "c", "p": True}, None, note=note),
                                   row({"m": "c", "p": False}, 1.0))))  # fmt: skip
    with pytest.raises(UntestableError, match=note) as error:
        absent.T("table1", "acc", m="c", p=True)
    assert error.value.short == note
    *_, (keys, difference) = absent.D("table1", "acc", "p", False, True)
    assert keys == {"m": "c"}
    with pytest.raises(UntestableError, match=note):
        assert difference > 0


def test_two_series_at_once_are_refused():
    rows = [row({"method": name, "index": 0}, 1.0, metric="loss") for name in ("x", "y")]
    with pytest.raises(UntestableError, match="name more keys"):
        Evidence(ResultTable(tuple(rows))).S("table1", "loss")


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
        (lambda e: e.best("table1", "nothing"), "higher or a lower"),
        (lambda e: e.sd("table1", "acc", m="b", p=True), "no spread"),
        (lambda e: e.S("table1", "loss"), "no loss"),
        (lambda e: e.D("table1", "acc", "p", False, "maybe"), "no acc with p=maybe"),
        (lambda e: e.T("table1", "acc", m="a", p=1), "no acc"),
    ],
)
def test_a_missing_number_is_named(evidence, ask, reason):
    with pytest.raises(UntestableError) as error:
        ask(evidence)
    assert reason in str(error.value)


def test_a_table_with_a_printed_row_missing_answers_no_question_about_the_whole():
    printed = ResultTable((*TABLE.rows[:4], row({"m": "c", "p": False}, 2.0)))
    evidence = Evidence(TABLE, printed)
    for ask in (evidence.V, evidence.best, evidence.worst):
        with pytest.raises(UntestableError, match='"m": "c"'):
            ask("table1", "acc")
    assert evidence.T("table1", "acc", m="b", p=True) == 3.0


def test_a_difference_that_print_has_must_be_there():
    half = ResultTable(TABLE.rows[:3])
    (_, there), (row_without, missing) = Evidence(half, TABLE).D("table1", "acc", "p", False, True)
    assert (there, row_without) == (0.5, {"m": "b"})
    with pytest.raises(UntestableError, match="p=True"):
        assert missing > 0
    with pytest.raises(UntestableError, match="p=False"):
        Evidence(ResultTable(TABLE.rows[1:2]), TABLE).D("table1", "acc", "p", False, True)


def test_a_difference_lost_in_print_is_not_asked_for():
    printed = ResultTable((*TABLE.rows[:3], row({"m": "b", "p": True}, None)))
    assert Evidence(printed, printed).D("table1", "acc", "p", False, True) == [({"m": "a"}, 0.5)]


def test_logarithm_of_a_list():
    assert log([1.0, math.e]) == pytest.approx([0, 1])


def test_rounds_to_a_part_of_the_drop():
    assert rounds_to([10, 8, 4, 2, 0], 0.5) == 2
    assert rounds_to([10, 8, 4, 2, 0], 1.0) == 4
