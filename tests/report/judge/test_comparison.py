from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from leaklab.records.errors import UserError
from leaklab.report.judge.comparison import compare, read_comparison, write_comparison
from leaklab.report.judge.printed import as_printed, load_choices
from leaklab.report.judge.tolerances import Rule, Tolerances
from leaklab.report.numbers.results import ResultRow, ResultTable

PAPERS = Path(__file__).parents[3] / "config" / "papers"


def row(model, value, eta=1, **more):
    return ResultRow("lrp", "table1", {"model": model, "eta": eta}, "acc", value, **more)


def table(*rows):
    return ResultTable(rows)


def tolerances(**rule):
    return Tolerances(
        classes={"tight": {"points": 0.5, "std_factor": 3}, "bands": {"bands": {"acc": 50.0}}},
        rules=(Rule(**{"class": "tight", **rule}),),
    )


def only(results, printed, **rule):
    (comparison,) = compare(results, printed, tolerances(**rule))
    return comparison


def test_the_difference_and_the_larger_of_both_tolerances():
    near = only(table(row("a", 90.4)), table(row("a", 90.0, std=0.1)))
    assert (near.difference, near.tolerance, near.within) == (pytest.approx(0.4), 0.5, "yes")
    spread = only(table(row("a", 90.8)), table(row("a", 90.0, std=0.3)))
    assert (spread.tolerance, spread.within) == (pytest.approx(0.9), "yes")
    far = only(table(row("a", 89.0)), table(row("a", 90.0, std=0.1)))
    assert (far.difference, far.within) == (pytest.approx(-1.0), "no")


def test_exactly_the_tolerance_is_within():
    assert only(table(row("a", 0.8)), table(row("a", 0.3))).within == "yes"


def test_whole_numbers_join_with_their_float_form():
    assert only(table(row("a", 1.0, eta=1.0)), table(row("a", 1.0, eta=1))).within == "yes"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (row("b", 1.0), "not run"),
        (row("a", None), "no number"),
        (row("a", 1.0, substitutes=("half of LFW",)), "half of LFW"),
        (row("a", 1.0, attacker="knowing"), "not run"),
        (row("a", 1.0, variant="partition-seed=0"), "not run"),
    ],
)
def test_what_is_not_compared_says_why(result, reason):
    comparison = only(table(result), table(row("a", 1.0)))
    assert (comparison.within, comparison.difference) == ("not compared", None)
    assert reason in comparison.reason


def test_order_only_leaves_the_judgement_to_the_claims():
    comparison = only(table(row("a", 3.0)), table(row("a", 1.0)), **{"class": "order only"})
    assert (comparison.within, comparison.difference, comparison.tolerance) == ("not compared", 2.0, None)


def test_bands_ask_for_the_same_side():
    assert only(table(row("a", 99.0)), table(row("a", 60.0)), **{"class": "bands"}).within == "yes"
    assert only(table(row("a", 49.0)), table(row("a", 51.0)), **{"class": "bands"}).within == "no"


def test_the_range_over_the_draws():
    draws = [row("a", value, variant=f"partition-seed={seed}") for seed, value in enumerate((88.0, 91.0, 89.0))]
    inside = only(table(row("a", 90.0), *draws), table(row("a", 90.9)))
    assert (inside.draws_min, inside.draws_max, inside.within_draws) == (88.0, 91.0, True)
    assert only(table(row("a", 90.0), *draws), table(row("a", 91.1))).within_draws is False
    assert only(table(row("a", 90.0)), table(row("a", 91.1))).within_draws is None


def test_centered_differences_remove_each_models_mean_on_both_sides():
    results = table(row("a", 91.0, 1), row("a", 93.0, 2), row("b", 50.0, 1))
    printed = table(row("a", 90.0, 1), row("a", 91.0, 2), row("b", 40.0, 1), row("b", 41.0, 2))
    found = compare(results, printed, tolerances(center_by=("model",)))
    # model a: 91 - 92 = -1 against 90 - 90.5 = -0.5; the missing cell of b does not count on either side
    assert [c.centered_difference for c in found] == [pytest.approx(-0.5), pytest.approx(0.5), pytest.approx(0), None]


def test_a_number_lost_in_print_is_passed_over():
    assert compare(table(row("a", 1.0)), table(row("a", None)), tolerances()) == ()


def test_the_file_says_the_same_as_the_rows(tmp_path):
    draws = [row("a", 88.5, variant="partition-seed=0")]
    printed = table(row("a", 90.0, std=0.1), row("b", 1.0))
    found = compare(table(row("a", 89.5, std=0.2), *draws), printed, tolerances())
    write_comparison(tmp_path / "c.csv", found)
    assert read_comparison(tmp_path / "c.csv") == found
    header = (tmp_path / "c.csv").read_text().splitlines()[0]
    assert header == (
        "paper,item,row,metric,printed,printed_std,value,std,difference,tolerance,class,within,reason,draws_min,"
        "draws_max,within_draws,centered_difference"
    )


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "c.csv").write_text("paper,item\nlrp,table1\n")
    with pytest.raises(UserError, match="is damaged"):
        read_comparison(tmp_path / "c.csv")


def test_the_projects_classes():
    printed = ResultTable.read_printed(PAPERS / "targets.csv")
    chosen = Tolerances.load(PAPERS / "tolerances.yaml")

    def of(paper, item, metric, **keys):
        first = next(r for r in printed.select(paper, item, metric).rows if keys.items() <= r.row.items())
        return chosen.of(first), first

    tolerance, first = of("lrp", "table1", "test_accuracy", model="cnn")
    assert (tolerance.class_name, tolerance.center_by) == ("tight", ("model",))
    assert tolerance.allowed(first) == max(0.5, 3 * first.std)
    unstable, _ = of("lrp", "table5", "test_accuracy", eta1=0.002, eta2=0.002)
    assert (unstable.class_name, unstable.times, unstable.over) == ("spread", 3, ("perturbation",))
    stable, cell = of("lrp", "table5", "test_accuracy", eta1=0.002, eta2=0.0005)
    assert stable.allowed(replace(cell, std=9.0)) == 1.0
    assert of("lrp", "table2", "test_accuracy", dataset="mnist")[0].class_name == "tight"
    assert of("lrp", "table2", "test_accuracy", dataset="cifar10")[0].class_name == "loose"
    assert of("lrp", "table3", "psnr")[0].class_name == "order only"
    assert of("outpost", "table3", "ssim")[0].class_name == "bands"
    assert of("outpost", "table3", "mse")[0].class_name == "order only"
    assert of("hyperfl", "table4", "seconds_per_round")[0].class_name == "order only"


def test_an_items_own_choice_goes_before_the_general_rules_but_not_before_named_rows():
    rules = (Rule(**{"class": "tight", "row": {"model": "b"}, "points": 1.5}), Rule(**{"class": "order only"}))
    chosen = Tolerances(classes={"tight": {"points": 0.5, "std_factor": 3}}, rules=rules)
    choice = {"class": "tight", "points": 0.7, "center_by": ["model"]}
    assert (chosen.of(row("a", 1.0), choice).points, chosen.of(row("a", 1.0), choice).std_factor) == (0.7, 3)
    assert (chosen.of(row("b", 1.0), choice).points, chosen.of(row("b", 1.0), choice).center_by) == (1.5, ("model",))
    assert chosen.of(row("a", 1.0)).class_name == "order only"


def test_wrong_settings_are_named(tmp_path):
    with pytest.raises(UserError, match=r"lrp table1, comparison: .*class"):
        tolerances().of(row("a", 1.0), {"class": "narrow"})
    (tmp_path / "t.yaml").write_text("classes: {}\nrules: [{class: tight, papers: lrp}]\n")
    with pytest.raises(UserError, match="papers"):
        Tolerances.load(tmp_path / "t.yaml")
    with pytest.raises(UserError, match="is missing"):
        Tolerances.load(tmp_path / "absent.yaml")


class TestSpread:
    """The pair (model a) is unstable in print; its value says nothing, its spread over the etas does."""

    RULES = Tolerances(
        classes={"spread": {"times": 3}},
        rules=(
            Rule(**{"class": "spread", "row": {"model": "a"}, "over": ("eta",)}),
            Rule(**{"class": "tight", "points": 1}),
        ),
    )
    PRINTED = table(*(row(model, 90.0, eta=eta, std=1.0) for model in "abc" for eta in (1, 2)))

    def judged(self, *spreads, **more):
        keys = [target.row for target in self.PRINTED.rows]
        results = [ResultRow("lrp", "table1", k, "acc", 50.0 if k["model"] == "a" else 90.5, std=s, **more)
                   for k, s in zip(keys, spreads, strict=True)]  # fmt: skip
        return compare(table(*results), self.PRINTED, self.RULES)

    def test_an_unstable_pair_has_one_large_spread(self):
        first, second, *stable = self.judged(0.1, 6.0, 0.5, 1.0, 2.0, 3.0)
        # the median of all six is 1.5
        assert (first.within, second.within) == ("yes", "yes")
        assert first.reason == "judged by its spread: up to 6, against 1.5 in the middle of the table"
        assert (first.difference, first.tolerance, first.class_name) == (-40.0, None, "spread")
        assert {cell.within for cell in stable} == {"yes"}
        assert {cell.reason for cell in stable} == {""}

    def test_a_pair_that_is_stable_here_does_not_agree(self):
        first, second, *_ = self.judged(0.1, 3.0, 0.5, 1.0, 2.0, 3.0)
        assert (first.within, second.within) == ("no", "no")

    def test_one_run_has_no_spread(self):
        first, second, *_ = self.judged(None, 6.0, 0.5, 1.0, 2.0, 3.0)
        assert (first.within, second.within) == ("not compared", "not compared")
        assert "more than one run" in first.reason

    def test_stand_ins_are_not_judged(self):
        assert {cell.within for cell in self.judged(1, 9, 1, 1, 1, 1, substitutes=("x",))} == {"not compared"}

    def test_the_class_survives_the_file(self, tmp_path):
        cells = self.judged(0.1, 6.0, 0.5, 1.0, 2.0, 3.0)
        write_comparison(tmp_path / "c.csv", cells)
        assert read_comparison(tmp_path / "c.csv") == cells


def test_a_number_that_was_not_run_says_why_and_is_not_missed():
    absent = only(table(row("a", None, note="not run: data not here")), table(row("a", 90.0)))
    assert (absent.within, absent.reason, absent.difference) == ("not compared", "not run: data not here", None)


def test_a_class_of_another_name_is_one_of_the_known_ones():
    near = Tolerances(
        classes={"tight": {"points": 0.5, "std_factor": 3}, "near": {"class": "tight", "points": 1}},
        rules=(Rule(**{"class": "near"}),),
    )
    for tolerance in (near.of(row("a", 1.0)), near.of(row("a", 1.0), {"class": "near"})):
        assert (tolerance.class_name, tolerance.points, tolerance.std_factor) == ("tight", 1, 3)
    assert near.of(row("a", 1.0), {"class": "near", "points": 2}).points == 2
    with pytest.raises(UserError, match=r"lrp table1, comparison: class"):
        near.of(row("a", 1.0), {"class": "far"})


def test_unstable_cells_do_not_enter_their_groups_mean():
    printed = table(row("a", 90.0, std=1.0), row("b", 90.0, std=9.0))
    results = table(row("a", 91.0, std=1.0), row("b", 20.0, std=9.0))
    rules = Tolerances(classes={}, rules=(Rule(**{"class": "spread", "row": {"model": "b"}, "center_by": ()}),
                                          Rule(**{"class": "tight", "center_by": ()})))  # fmt: skip
    first, second = compare(results, printed, rules)
    assert (first.centered_difference, second.centered_difference) == (pytest.approx(0), None)


class TestPrintedChoice:
    """Where a paper printed the best of several starts, which needs the truth, that is what is compared."""

    CHOICES: ClassVar = {"lrp/table1": "oracle"}

    def results(self):
        own = row("a", 90.0, attacker="paper")
        best = replace(own, row={**own.row, "selection": "oracle"}, value=95.0)
        guess = replace(own, row={**own.row, "selection": "mean-image"}, value=10.0, attacker="")
        return table(own, best, guess, row("b", 80.0, attacker="paper"), row("a", 97.0, attacker="knowing"))

    def test_the_row_of_the_printed_choice_stands_in_the_place_of_the_attacks_own(self):
        chosen = as_printed(self.results(), self.CHOICES)
        assert only(chosen, table(row("a", 95.0))).value == 95.0
        assert only(self.results(), table(row("a", 95.0))).value == 90.0

    def test_a_cell_without_that_choice_is_not_compared_with_another(self):
        assert only(as_printed(self.results(), self.CHOICES), table(row("b", 80.0))).reason == "not run at this scale"

    def test_other_items_and_attackers_stay(self):
        assert as_printed(self.results(), {"lrp/table2": "oracle"}) == self.results()
        knowing = as_printed(self.results(), self.CHOICES).select(attackers=("knowing",))
        assert [one.value for one in knowing.rows] == [97.0]

    def test_the_projects_own_choices_name_items_with_such_rows(self):
        for item, selection in load_choices(PAPERS / "printed.yaml").items():
            rows = ResultTable.read(PAPERS.parents[1] / "results/small" / f"{item}.csv").rows
            assert any(one.row.get("selection") == selection for one in rows), item

    def test_a_file_with_another_key_is_refused(self, tmp_path):
        (tmp_path / "printed.yaml").write_text("selections: {}\ntypo: 1\n")
        with pytest.raises(UserError, match="typo"):
            load_choices(tmp_path / "printed.yaml")
