from leaklab.items.layouts import TableLayout
from leaklab.report.figures import table_figure
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.numbers.words import gaps, word_of
from leaklab.report.tables import tables
from leaklab.report.tables.layout import lay_out

NOT_HERE = "not run: data not here: ImageNet"
SPEC = TableLayout(rows=("method",), columns=("dataset",), metric="acc", format="{value:.1f} ± {std:.1f}")


def row(method, dataset, value, metric="acc", **more):
    return ResultRow("lrp", "table2", {"method": method, "dataset": dataset}, metric, value, **more)


TABLE = ResultTable(
    (
        row("lrp", "imagenet", None, n=0, note=NOT_HERE),
        row("fedavg", "imagenet", None, n=0, note=NOT_HERE),
        row("lrp", "mnist", 98.0, std=0.1, n=2),
        row("lrp", "mnist", 1.0, metric="diverged_runs", n=3),
        row("fedavg", "mnist", None, n=0, note="diverged: all 3 runs"),
        row("fedavg", "mnist", 3.0, metric="diverged_runs", n=3),
    )
)


def test_each_reason_is_one_sentence_and_lost_runs_are_counted():
    assert gaps(TABLE) == (
        "not run: data not here: ImageNet (2 numbers: dataset imagenet)",
        "runs that diverged: 1 of 3 at method lrp, dataset mnist; 3 of 3 at method fedavg, dataset mnist",
    )


def test_a_complete_table_lacks_nothing():
    assert gaps(ResultTable((row("lrp", "mnist", 98.0), row("lrp", "mnist", 0.0, metric="capped_runs", n=3)))) == ()


def test_points_of_curves_and_further_cells_are_not_listed_one_by_one():
    points = ResultRow("lrp", "t", {"index": 3}, "loss", None, note=NOT_HERE)
    many = [row(str(place), "mnist", 1.0, metric="capped_runs", n=3) for place in range(7)]
    (sentence,) = gaps(ResultTable((points, *many)))
    assert sentence.endswith("1 of 3 at method 3, dataset mnist; and in 3 more cells")


def test_a_draw_is_named():
    (sentence,) = gaps(ResultTable((row("a", "b", 1.0, metric="diverged_runs", n=1, variant="partition-seed=3"),)))
    assert sentence == "runs that diverged: 1 of 1 at method a, dataset b (partition-seed=3)"


def test_updates_that_say_nothing_are_told_once_however_many_attacked_them():
    cell = {"method": "lrp", "dataset": "mnist"}
    rows = [
        ResultRow("lrp", "table2", keys, "no_information", 3.0, n=12, attacker=attacker)
        for attacker, keys in (("paper", cell), ("blind", cell), ("", {**cell, "tried": "dlg"}))
    ]
    assert gaps(ResultTable(tuple(rows))) == (
        "updates that say nothing of their samples: 3 of 12 at method lrp, dataset mnist",
    )


def test_the_word_of_a_note():
    assert [word_of(one) for one in TABLE.rows[:4]] == ["not run", "not run", "", ""]


class TestTables:
    # one method has a number in the column that else would be left out
    GRID = lay_out(SPEC, ResultTable((*TABLE.rows, row("ada-lrp", "imagenet", 50.0, std=0.1))))

    def test_a_cell_without_a_number_says_why(self):
        assert [[cell.text for cell in cells] for cells in self.GRID.cells] == [
            ["not run", "98.0 ± 0.1"],
            ["not run", "diverged"],
            ["50.0 ± 0.1", "\u2013"],
        ]

    def test_each_form_of_the_table_explains_it(self):
        for text in (tables.markdown(self.GRID, "T"), tables.latex(self.GRID, "T", "tab:t"), tables.legend(self.GRID)):
            assert "Not run: data not here: ImageNet (2 numbers: dataset imagenet)." in text
            assert "Runs that diverged: 1 of 3" in text
        assert "not run" in tables.page_table(self.GRID, "T")

    def test_the_figure_has_the_notes_in_lines_that_fit(self):
        drawn = table_figure.draw(self.GRID, "T")
        texts = [
            text for text in drawn.axes[0].texts if "diverged:" in text.get_text() or "fedavg, data" in text.get_text()
        ]
        assert texts
        assert all(text.get_window_extent().x1 <= drawn.bbox.x1 for text in drawn.axes[0].texts)

    def test_points_of_a_curve_do_not_enter_the_table(self):
        with_curve = ResultTable(
            (*TABLE.rows, ResultRow("lrp", "table2", {"method": "lrp", "dataset": "mnist", "index": 0}, "acc", 1.0))
        )
        assert lay_out(SPEC, with_curve).cells == lay_out(SPEC, TABLE).cells


def test_headings_that_share_a_line_do_not_run_into_each_other():
    names = ("mnist", "cifar10", "cifar100", "imagenet", "femnist")
    rows = tuple(row("lrp", name, 90.0, std=0.1, metric=metric) for name in names for metric in ("acc", "top5"))
    spec = TableLayout(
        rows=("method",),
        columns=("dataset", "metric"),
        metric=("acc", "top5"),
        titles={"dataset": "data set of the clients"},
    )
    drawn = table_figure.draw(lay_out(spec, ResultTable(rows)), "T")
    headings = [text for text in drawn.axes[0].texts if text.get_text().split(" = ")[-1] in names]
    assert len(headings) == 5
    boxes = [text.get_window_extent() for text in headings]
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[place + 1 :])


def test_what_an_attack_does_not_answer_is_said_only_where_it_is_asked():
    mute = row("lrp", "mnist", None, metric="label_correct", n=0, note="not guessed: the attack names no label")
    results = ResultTable((row("lrp", "mnist", 98.0), mute))
    assert gaps(results, ["acc"]) == ()
    assert gaps(results, ["acc", "label_correct"]) == gaps(results) != ()
