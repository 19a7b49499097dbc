from leaklab.report.judge.attackers import contested, knowing_runs, setting_of, worst_case
from leaklab.report.numbers.results import ResultRow, ResultTable


def row(value, attacker="paper", metric="mse_median", run="p", defense="lrp", **keys):
    keys = {"defense": defense, **keys}
    return ResultRow("lrp", "figure2", keys, metric, value, better="higher", attacker=attacker, runs=(run,))


PAPER, BLIND = row(0.5), row(0.6, "blind", run="b")
KNOWING = row(0.2, "knowing", run="k", by="dlg, free scale")
TRIED = [row(value, "", run=run, tried=run) for value, run in ((0.5, "p"), (0.6, "b"), (0.2, "k"))]


def values(*rows):
    return [row.value for row in worst_case(ResultTable(rows)).rows]


def test_the_knowing_attackers_rows_are_left_under_the_papers_own_keys():
    (left,) = worst_case(ResultTable((PAPER, BLIND, KNOWING))).rows
    assert (left.value, left.attacker, left.row) == (0.2, "knowing", {"defense": "lrp"})


def test_each_metric_has_its_own():
    psnr = [row(7.0, metric="psnr_median"), row(8.0, "knowing", "psnr_median", by="dlg")]
    assert values(PAPER, KNOWING, *psnr) == [0.2, 8.0]


def images(attacker, run, shift=0.0, **more):
    return [row(value + shift, attacker, "mse", run, image=image, **more) for image, value in ((1, 0.3), (2, 0.9))]


def test_of_single_images_all_are_of_the_knowing_attacker():
    assert values(PAPER, KNOWING, *images("paper", "p"), *images("knowing", "k", 1.0, by="x")) == [0.2, 1.3, 1.9]


def test_where_they_are_not_repeated_its_run_says_which_they_are():
    singles = [*images("paper", "p"), *images("blind", "b", 1.0)]
    for run, found in (("p", [0.3, 0.9]), ("b", [1.3, 1.9])):
        assert values(row(0.1, "knowing", run=run, by="x"), *singles) == [0.1, *found]


def updates(attacker, run, shift=0.0, **more):
    return [row(value + shift, attacker, "mse", run, update=number, **more) for number, value in ((1, 0.3), (2, 0.9))]


def test_single_updates_go_by_the_same_rule_though_their_mean_has_their_metric():
    means = [row(0.5, metric="mse"), row(0.2, "knowing", "mse", "k", by="dlg, free scale")]
    assert values(*means, *updates("paper", "p"), *updates("knowing", "k", 1.0, by="x")) == [0.2, 1.3, 1.9]
    singles = [*updates("paper", "p"), *updates("blind", "b", 1.0)]
    for run, found in (("p", [0.3, 0.9]), ("b", [1.3, 1.9])):
        assert values(row(0.1, "knowing", "mse", run, by="x"), *singles) == [0.1, *found]


def test_references_and_attacks_that_were_tried_stay():
    beside = [row(0.7, "", selection="mean-image"), row(0.8, selection="oracle"), *TRIED]
    assert values(PAPER, KNOWING, *beside) == [0.2, 0.7, 0.8, 0.5, 0.6, 0.2]


def test_of_a_curve_it_is_the_attacker_who_knows_the_defense_else_the_papers():
    curve = {
        name: row(level, name, "loss", index=0) for name, level in (("blind", 3.0), ("paper", 1.0), ("knowing", 2.0))
    }
    assert values(*curve.values()) == [2.0]
    assert values(curve["blind"], curve["paper"]) == [1.0]
    assert values(curve["blind"]) == [3.0]


def test_a_setting_is_contested_where_more_than_one_attack_was_tried():
    alone = [
        row(0.4, defense="none"),
        row(0.4, "knowing", defense="none", by="dlg"),
        row(0.4, "", defense="none", tried="dlg"),
    ]
    found = contested(ResultTable((PAPER, KNOWING, *TRIED, *alone, *images("paper", "p"))))
    assert [setting_of(one) in found for one in (PAPER, KNOWING, *images("paper", "p"))] == [True] * 4
    assert not any(setting_of(one) in found for one in alone)


def test_the_runs_behind_the_knowing_attacker():
    psnr = [row(7.0, "", "psnr_median", run, tried=run) for run in ("p", "k")]
    table = ResultTable((PAPER, KNOWING, *TRIED, row(8.0, "knowing", "psnr_median", by="dlg"), *psnr))
    assert knowing_runs(table, "mse") == {"k"}
    assert knowing_runs(table, "psnr") == {"p"}
    assert knowing_runs(table, "", "lpips", "psnr", "mse") == {"p"}, "the first of them that was computed"
    assert knowing_runs(table, "lpips") == frozenset()
    assert knowing_runs(ResultTable((PAPER, KNOWING, TRIED[0])), "mse") == frozenset()


def test_it_is_its_own_worst_case():
    singles = (*images("paper", "p"), *images("knowing", "k", by="x"), *updates("paper", "p"))
    table = ResultTable((PAPER, BLIND, KNOWING, *TRIED, *singles))
    assert worst_case(worst_case(table)) == worst_case(table)
