from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from leaklab.items.layouts import TableLayout
from leaklab.records.errors import UserError
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.tables import tables
from leaklab.report.tables.layout import lay_out
from leaklab.report.tables.notes import heading

SPEC = TableLayout(
    rows=("model", "perturbation"),
    columns=("eta",),
    metric="acc",
    format="{value:.1f} ± {std:.1f}",
    labels={"perturbation": {"false": "fixed", "true": "U(0, 2η)"}},
    titles={"eta": "η₁"},
)


def row(value, std=0.1, model="cnn", perturbation=False, eta=0.01, **more):
    keys = {"model": model, "perturbation": perturbation, "eta": eta}
    return ResultRow("lrp", "table1", keys, "acc", value, std=std, **{"better": "higher", **more})


TABLE = ResultTable(
    (row(93.0, eta=0.02), row(90.0), row(80.0, perturbation=True), row(81.0, perturbation=True, eta=0.02))
)
BESIDE = (Comparison("lrp", "table1", TABLE.rows[1].row, "acc", 91.0, printed_std=0.2, value=90.0, difference=-1.0,
                     within="no"),)  # fmt: skip


def grid(spec=SPEC, table=TABLE, beside=BESIDE):
    return lay_out(spec, table, beside)


def test_numbers_stand_by_value_and_names_by_appearance():
    laid = grid()
    assert laid.row_labels == (("cnn", "fixed"), ("cnn", "U(0, 2η)"))
    assert laid.column_labels == (("0.01",), ("0.02",))
    assert [[cell.text for cell in cells] for cells in laid.cells] == [
        ["90.0 ± 0.1", "93.0 ± 0.1"],
        ["80.0 ± 0.1", "81.0 ± 0.1"],
    ]


def test_each_group_has_its_own_best_and_worst():
    assert [[cell.mark for cell in cells] for cells in grid().cells] == [["worst", "best"], ["worst", "best"]]
    whole = grid(SPEC.model_copy(update={"mark_within": ("model",)}))
    assert [[cell.mark for cell in cells] for cells in whole.cells] == [["", "best"], ["worst", ""]]


def test_lower_can_be_better_and_equal_values_have_no_best():
    lower = ResultTable((row(1.0, better="lower"), row(2.0, eta=0.02, better="lower")))
    assert [cell.mark for cell in grid(table=lower, beside=()).cells[0]] == ["best", "worst"]
    equal = ResultTable((row(1.0), row(1.0, eta=0.02)))
    assert not grid(table=equal, beside=()).marked


def test_a_single_seed_or_update_makes_nothing_the_best():
    one = ResultTable((row(1.0, clusters=1, n=4), row(2.0, eta=0.02, clusters=3, n=3)))
    assert not grid(table=one, beside=()).marked
    assert grid(table=ResultTable((row(1.0, clusters=2), row(2.0, eta=0.02, clusters=3))), beside=()).marked


def test_protection_left_is_shown_between_nothing_and_all():
    keys = [{"d": name} for name in "abc"]
    rows = [
        ResultRow("p", "t", k, "protection_left", v, unit="%") for k, v in zip(keys, (-3.0, 42.0, 536.0), strict=True)
    ]
    spec = TableLayout(rows=("d",), columns=("metric",), metric="protection_left", format="{value:.0f}")
    laid = lay_out(spec, ResultTable(tuple(rows)))
    assert [cells[0].text for cells in laid.cells] == ["0", "42", "100"]
    assert laid.cells[2][0].result.value == 536


def test_it_says_how_many_values_stand_behind_a_number():
    table = ResultTable((row(1.0, clusters=5, n=20), row(2.0, eta=0.02, clusters=10, n=20)))
    assert grid(table=table, beside=()).notes == ("behind a number: 20 values of 5 to 10 seeds",)
    attacked = ResultTable((row(1.0, clusters=20, n=20, attacker="paper"),))
    assert grid(table=attacked, beside=()).notes == ("behind a number: 20 updates",)
    assert grid(table=ResultTable((row(1.0, clusters=1, n=1),)), beside=()).notes == ("behind a number: 1 seed",)
    assert grid().notes == ()


def test_columns_that_rest_on_different_things_say_so_each():
    own = {"substitutes": ("reduced setting of scale small", "resnet-small in place of resnet-18"), "n": 1}
    table = ResultTable((row(1.0, eta="mnist", n=3, clusters=3), row(2.0, eta="cifar10", clusters=1, **own)))
    assert grid(table=table, beside=()).notes == (
        "mnist: 3 seeds",
        "cifar10: resnet-small in place of resnet-18; 1 seed",
    )


def test_a_column_without_any_number_is_left_out_and_named():
    table = ResultTable((row(1.0), row(None, eta=0.02, note="not available: no weights")))
    laid = grid(table=table, beside=())
    assert laid.column_labels == (("0.01",),)
    assert [len(cells) for cells in laid.cells] == [1]
    assert laid.notes == (
        "left out, as there is no number: 0.02",
        "not available: no weights (1 number: model cnn, perturbation false, eta 0.02)",
    )
    nothing = grid(table=ResultTable((row(None), row(None, eta=0.02))), beside=())
    assert nothing.column_labels == (("0.01",), ("0.02",))


class TestReferences:
    SPEC = TableLayout(rows=("d", "attacker"), columns=("metric",), metric=("mse", "psnr"), format="{value:.2f}",
                       attackers=("paper",), references={"mean-image": "mean image", "absent": "absent"})  # fmt: skip

    def laid(self, *values):
        own = [ResultRow("p", "t", {"d": "lrp"}, metric, 0.5, attacker="paper") for metric in ("mse", "psnr")]
        beside = [
            ResultRow("p", "t", {"d": name, "selection": kind}, "mse", value)
            for name, value in zip(("none", "lrp"), values, strict=False)
            for kind in ("mean-image", "oracle")
        ]
        return lay_out(self.SPEC, ResultTable((*beside, *own)))

    def test_they_stand_once_below_all_others(self):
        laid = self.laid(0.111, 0.112)
        assert laid.row_labels == (("lrp", "paper"), ("mean image", ""))
        assert [cell.text for cell in laid.cells[1]] == ["0.11", "\u2013"]

    def test_different_ones_are_shown_as_a_range(self):
        assert self.laid(0.3, 0.1).cells[1][0].text == "0.10 to 0.30"

    def test_the_spread_of_one_is_shown_and_that_of_a_ranges_ends_is_not(self):
        spec = self.SPEC.model_copy(update={"format": "{value:.2f} ± {std:.2f}"})
        own = ResultRow("p", "t", {"d": "lrp"}, "mse", 0.5, std=0.1, attacker="paper")
        ends = [
            ResultRow("p", "t", {"d": d, "selection": "mean-image"}, "mse", v, std=0.1)
            for d, v in (("a", 0.2), ("b", 0.4))
        ]
        assert lay_out(spec, ResultTable((*ends, own))).cells[1][0].text == "0.20 to 0.40"
        assert lay_out(spec, ResultTable((ends[0], own))).cells[1][0].text == "0.20 ± 0.10"


def test_metrics_below_are_lines_of_their_own():
    found = [ResultRow("p", "t", {"N": n}, "seconds", n / 10) for n in (100, 50)]
    found.append(ResultRow("p", "t", {"N": 100}, "error", 0.0))
    spec = TableLayout(rows=("metric",), columns=("N",), metric=("error", "seconds"), below=("seconds",),
                       format="{value:.1f}", titles={"N": "clients"})  # fmt: skip
    laid = lay_out(spec, ResultTable(tuple(found)))
    assert (laid.row_labels, laid.column_labels) == ((("error",),), (("100",),))
    assert laid.notes == ("seconds: 5.0 at clients = 50, 10.0 at clients = 100",)


def test_metrics_below_need_no_column_and_are_told_apart_by_all_in_which_they_differ():
    values = {("iid", "paper"): 0.9, ("non-iid", "paper"): 0.7, ("iid", "knowing"): 1.0, ("non-iid", "knowing"): 1.0}
    found = [
        ResultRow("p", "t", {"deal": deal, "n": 16, **({"by": "x"} if by == "knowing" else {})}, "read", value,
                  attacker=by)
        for (deal, by), value in values.items()
    ]  # fmt: skip
    found.append(ResultRow("p", "t", {"attack": "DLG"}, "holds", 0.0))
    found.append(ResultRow("p", "t", {"n": 16}, "pace", 3.0))
    labels = {"deal": {"iid": "IID", "non-iid": "non-IID"}, "attacker": {"paper": "paper", "knowing": "who counts"}}
    spec = TableLayout(rows=("attack",), columns=("metric",), metric="holds", below=("read", "pace"), format="{value}",
                       attackers=("paper", "knowing", ""), labels=labels)  # fmt: skip
    laid = lay_out(spec, ResultTable(tuple(found)))
    assert laid.column_labels == (("holds",),)
    assert laid.notes == (
        "read: 0.9 at IID, paper; 1.0 at IID, who counts; 0.7 at non-IID, paper; 1.0 at non-IID, who counts",
        "pace: 3.0",
    )


@pytest.mark.parametrize(("label", "shown"), [("0.01", "η 0.01"), ("MNIST", "MNIST"), ("10", "η 10"), ("", "")])
def test_a_heading_names_its_key_at_numbers_only(label, shown):
    assert heading("η", label) == shown


def test_a_printed_cell_that_was_not_run_is_shown_empty():
    absent = Comparison("lrp", "table1", {"model": "mlp", "perturbation": False, "eta": 0.01}, "acc", 88.0)
    cell = grid(beside=(absent,)).cells[2][0]
    assert (cell.text, cell.printed, cell.difference) == ("\u2013", "88.0", "")


def test_metrics_and_attackers_can_be_columns():
    table = ResultTable(
        (
            ResultRow("p", "t", {"d": "lrp"}, "mse", 0.25, better="higher", attacker="paper"),
            ResultRow("p", "t", {"d": "lrp", "transform": "x"}, "mse", 0.5, better="higher", attacker="knowing"),
            ResultRow("p", "t", {"d": "lrp"}, "mse_r", 3.0, better="higher", attacker="paper"),
            ResultRow("p", "t", {"d": "lrp", "selection": "oracle"}, "mse", 9.0, attacker="paper"),
        )
    )
    spec = TableLayout(rows=("d",), columns=("metric", "attacker"), metric=("mse_r", "mse"),
                     format={"mse": "{value:.2f}"},
                     attackers=("paper", "knowing"), titles={"mse_r": "MSE-R"})  # fmt: skip
    laid = lay_out(spec, table)
    assert laid.column_labels == (("MSE-R", "paper"), ("mse", "paper"), ("mse", "knowing"))
    assert [cell.text for cell in laid.cells[0]] == ["3", "0.25", "0.50"]


def test_a_layout_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match="two numbers fall into one cell"):
        grid(SPEC.model_copy(update={"rows": ("model",)}))
    with pytest.raises(UserError, match="no key colour"):
        grid(SPEC.model_copy(update={"rows": ("colour",)}))
    with pytest.raises(UserError, match="does not fit"):
        grid(SPEC.model_copy(update={"format": "{mean:.2f}"}))


def test_markdown():
    assert tables.markdown(grid(), "Accuracy") == (
        "**Accuracy**\n\n"
        "| model | perturbation | 0.01 | 0.02 |\n"
        "| --- | --- | ---: | ---: |\n"
        "| cnn | fixed | **90.0 ± 0.1** ▼ (91.0 ± 0.2, \u22121.0 ✗) | **93.0 ± 0.1** ▲ |\n"
        "| cnn | U(0, 2η) | **80.0 ± 0.1** ▼ | **81.0 ± 0.1** ▲ |\n\n"
        "Columns: η₁. In parentheses: the printed number and the difference from it; ✓ within tolerance, ✗ outside. "
        "▲ best, ▼ worst of its group.\n"
    )


def test_latex_writes_signs_of_comparison_as_mathematics():
    caption = tables.latex(grid(), "E ≥ 1, n ≫ 1, B ≤ n, B < n, n > 1", "tab:t").splitlines()[3]
    assert caption == r"\caption{E $\geq$ 1, n $\gg$ 1, B $\leq$ n, B $<$ n, n $>$ 1}"


def test_latex():
    lines = tables.latex(grid(), "Accuracy (%) of A & B", "tab:t").splitlines()
    assert r"\caption{Accuracy (\%) of A \& B}" in lines
    assert r"& \emph{$\eta_1$} & \multicolumn{1}{c}{0.01} & \multicolumn{1}{c}{0.02} \\" not in lines
    assert r"model & perturbation & \multicolumn{1}{c}{0.01} & \multicolumn{1}{c}{0.02} \\" in lines
    assert (
        r"cnn & fixed & \textbf{90.0 $\pm$ 0.1}$^{\blacktriangledown}$ & \textbf{93.0 $\pm$ 0.1}$^{\blacktriangle}$ \\"
    ) in lines
    assert r"&  & {\footnotesize (91.0 $\pm$ 0.2; $-$1.0)} &  \\" in lines
    text = "\n".join(lines)
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin") == text.count(r"\end")
    assert text.isascii()
    spread = replace(BESIDE[0], class_name="spread")
    assert tables.latex(grid(beside=(spread,)), "pₖN", "tab:t").isascii()


def test_the_page_table_is_well_formed_and_escaped():
    hostile = ResultTable((row(1.0, model="<script>"),))
    text = tables.page_table(grid(table=hostile, beside=()), "a < b")
    assert "<script>" not in text
    ET.fromstring(text)


def test_the_page_table_names_its_headers_and_does_not_rely_on_color():
    root = ET.fromstring(tables.page_table(grid(), "Accuracy"))
    assert {cell.get("scope") for cell in root.iter("th")} <= {"row", "col", "colgroup"}
    first = next(root.iter("td"))
    text = "".join(first.itertext())
    assert "▼" in text
    assert "✗" in text
    assert "printed 91.0 ± 0.2" in text
    assert first.find(".//strong").text == "90.0"
    widths = {sum(int(cell.get("colspan", 1)) for cell in line) for line in root.iter("tr")}
    assert widths == {3}


@pytest.mark.parametrize("within", ["yes", "no"])
def test_where_only_the_spread_is_judged_the_difference_has_no_sign_of_agreement(within):
    judged = Comparison("lrp", "table1", TABLE.rows[1].row, "acc", 60.0, printed_std=9.0, value=90.0, difference=30.0,
                        class_name="spread", within=within)  # fmt: skip
    (cell,) = [cell for cells in grid(beside=(judged,)).cells for cell in cells if cell.printed]
    assert (cell.difference, cell.delta, cell.within) == ("+30.0", 30.0, "")
    text = tables.markdown(grid(beside=(judged,)), "T")
    assert "(60.0 ± 9.0, +30.0)" in text
    assert "only the spread is compared" in text
    assert "spread" not in tables.markdown(grid(), "T")
