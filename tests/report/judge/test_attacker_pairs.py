import pytest

from leaklab.report.judge.attackers import attacker_pairs
from leaklab.report.numbers.results import ResultRow, ResultTable


def row(value, attacker="paper", run="p", low=None, high=None, defense="lrp", **keys):
    return ResultRow("lrp", "figure2", {"defense": defense, **keys}, "mse_median", value, ci_low=low, ci_high=high,
                     clusters=10, better="higher", attacker=attacker, runs=(run,))  # fmt: skip


def table(low=-0.5, high=-0.1, run="k"):
    return ResultTable((
        row(0.5, low=0.1, high=0.9),
        row(0.2, "knowing", run, 0.1, 0.4, by="dlg, free scale"),
        row(0.5, "", tried="dlg"),
        row(0.2, "", "k", tried="dlg, free scale"),
        row(-0.3, "", "k", low, high, difference="knowing - paper"),
        row(-0.4, "knowing", "k", -0.9, -0.8, difference="attack - best guess", by="dlg, free scale"),
        row(0.0, "knowing", "k", 0.0, 0.0, difference="defended - undefended", by="dlg, free scale"),
        row(0.1, defense="none"),
        row(0.1, "knowing", defense="none", by="dlg"),
        row(0.1, "", defense="none", tried="dlg"),
    ))  # fmt: skip


def test_both_attackers_stand_side_by_side_and_the_strongest_is_named():
    lrp, none = attacker_pairs(table())
    assert (lrp.paper, lrp.knowing, lrp.by, lrp.clusters) == (0.5, 0.2, "dlg, free scale", 10)
    assert (lrp.paper_interval, lrp.knowing_interval) == ((0.1, 0.9), (0.1, 0.4))
    assert (none.paper, none.knowing, none.leaks_more) == (0.1, None, None)


@pytest.mark.parametrize(("ends", "more"), [((-0.5, -0.1), True), ((-0.5, 0.1), False), ((None, None), None)])
def test_the_difference_in_pairs_says_whether_one_sees_more_however_the_intervals_overlap(ends, more):
    assert attacker_pairs(table(*ends))[0].leaks_more is more


def test_the_papers_attack_as_the_strongest_sees_no_more_than_itself():
    assert attacker_pairs(table(run="p"))[0].leaks_more is False


def test_where_nothing_else_was_tried_there_is_no_pair():
    assert attacker_pairs(ResultTable(table().rows[5:])) == ()
