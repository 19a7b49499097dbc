import io
from dataclasses import replace

import pytest
from matplotlib.colors import to_rgba

from leaklab.items.layouts import TableLayout
from leaklab.records.errors import UserError
from leaklab.report.figures import partition_figure, style, table_figure
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.tables.layout import lay_out

RATES = (0.005, 0.01, 0.02)
SPEC = TableLayout(rows=("model", "perturbation"), columns=("eta1", "eta2"), metric="acc")
CELLS = [
    {"model": m, "perturbation": p, "eta1": a, "eta2": b}
    for m in ("cnn", "mlp", "logistic-regression")
    for p in (False, True)
    for a in RATES
    for b in RATES
]
TABLE = ResultTable(
    tuple(ResultRow("lrp", "table1", k, "acc", 90 + i / 7, std=0.12, better="higher") for i, k in enumerate(CELLS))
)
BESIDE = tuple(
    Comparison("lrp", "table1", k, "acc", 90.0, 0.1, 90 + i / 7, 0.12, i / 7, 0.5, "tight", "no",
               draws_min=89.5, draws_max=91.0, within_draws=i % 2 == 0)
    for i, k in enumerate(CELLS)
)  # fmt: skip


def texts(figure):
    return [text for axes in figure.axes for text in axes.texts]


def boxes_of(figure):
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    return [text.get_window_extent(renderer) for text in texts(figure) if text.get_text()]


def crossing(boxes):
    """Return the pairs of texts that cover each other."""
    return [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1 + 0.3 * a.height
    ]


def one_column(rows=4, **keys):
    found = [ResultRow("lrp", "smc", {"N": 100, **keys}, f"number {i}", i / 7) for i in range(rows)]
    layout = TableLayout(rows=("metric",), columns=("N",), metric=tuple(row.metric for row in found),
                         format="{value:.2f}", titles={"N": "clients"})  # fmt: skip
    return table_figure.draw(lay_out(layout, ResultTable(tuple(found))), "Numbers")


def test_a_single_column_stands_near_its_labels_on_a_page_of_full_width():
    figure = one_column()
    shown = {text.get_text(): text for text in texts(figure)}
    boxes_of(figure)
    gap = shown["0.43"].get_window_extent().x0 - shown["number 3"].get_window_extent().x1
    assert 0 < gap < 1.0 * figure.dpi
    assert figure.get_figwidth() == style.PAGE_WIDTH
    assert shown["number 3"].get_fontweight() == "normal"


def test_a_number_as_heading_has_its_key_and_nothing_else_is_explained():
    words = [text.get_text() for text in texts(one_column())]
    assert "clients = 100" in words
    assert not any(word.startswith("Columns:") for word in words)


def test_a_key_that_does_not_fit_above_its_columns_stands_before_them():
    keys = [{"model": "a quite long name", "eta1": a, "eta2": b / 10000} for a in RATES for b in range(1, 4)]
    table = ResultTable(tuple(ResultRow("lrp", "t", k, "acc", 90 + i / 7) for i, k in enumerate(keys)))
    layout = TableLayout(rows=("model",), columns=("eta1", "eta2"), metric="acc")
    words = [text.get_text() for text in texts(table_figure.draw(lay_out(layout, table), "T"))]
    assert words.count("eta2 =") == 1
    assert "eta1 = 0.005" in words


def test_the_words_of_missing_numbers_and_long_headings_stay_in_their_columns():
    metrics = ("mse", "psnr", "mse 0 to 1", "psnr 0 to 1", "vgg", "alex", "squeeze", "labels")
    layout = TableLayout(rows=("defense",), columns=("metric",), metric=metrics)
    lost = (("none", "vgg"), ("lrp", "alex"))
    found = [
        ResultRow("lrp", "table3", {"defense": name}, metric, None if (name, metric) in lost else 0.5,
                  note="not available: its weights" if (name, metric) in lost else "")
        for name in ("none", "lrp")
        for metric in metrics
    ]  # fmt: skip
    figure = table_figure.draw(lay_out(layout, ResultTable(tuple(found))), "Privacy")
    assert not crossing(boxes_of(figure))
    assert [text.get_text() for text in texts(figure)].count("available") == 2


@pytest.mark.parametrize("label", ["pFedHN-PC", "WWWWWWWW", "DP-FedAvg", "Fashion-MNIST", "iiiiiiii"])
def test_labels_of_wide_letters_keep_clear_of_the_next_column(label):
    cells = [{"method": name, "attacker": "the paper's attacker", "n": 1} for name in (label, "x")]
    rows = tuple(ResultRow("hyperfl", "table3", cell, "psnr", 6.7) for cell in cells)
    layout = TableLayout(rows=("method", "attacker"), columns=("n",), metric="psnr", format="{value:.1f}")
    figure = table_figure.draw(lay_out(layout, ResultTable(rows)), "Numbers")
    figure.savefig(io.BytesIO(), format="png")
    assert not crossing(boxes_of(figure))


def test_notes_that_say_the_same_of_several_columns_are_one():
    said = [
        "FedAvg, head: a subset; 3 seeds",
        "left out, as there is no number: A; B",
        "FedAvg, adapters: a subset; 3 seeds",
        "behind a number",
        "HyperFL: 1 seed",
    ]
    assert table_figure.merged(said) == [
        "FedAvg, head; FedAvg, adapters: a subset; 3 seeds",
        "left out, as there is no number: A; B",
        "behind a number",
        "HyperFL: 1 seed",
    ]


def test_54_cells_fit_on_a_page_without_overlap():
    figure = table_figure.draw(lay_out(SPEC, TABLE, BESIDE), "Accuracy")
    assert figure.get_figwidth() <= 7.5
    assert figure.get_figheight() <= 9.5
    assert min(text.get_fontsize() for text in texts(figure)) >= style.SMALLEST_FONT
    boxes = boxes_of(figure)
    assert not crossing(boxes)
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


def test_the_drawn_numbers_are_the_tables():
    shown = " ".join(text.get_text() for text in texts(table_figure.draw(lay_out(SPEC, TABLE, BESIDE), "Accuracy")))
    for i in range(54):
        assert f"{90 + i / 7:.2f}" in shown
    assert shown.count("▲") == 6 + 1  # one per row of the table, and the legend


def test_the_files_are_the_same_twice(tmp_path):
    grid = lay_out(SPEC, ResultTable(TABLE.rows[:2]))
    for name in ("a", "b"):
        style.save(table_figure.draw(grid, "t"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_ranges_show_every_cell_in_its_panel():
    figure = partition_figure.draw_ranges(BESIDE, SPEC, "model", "Printed against ten draws")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["cnn", "mlp", "logistic-regression"]
    assert [len(axes.get_yticks()) for axes in figure.axes] == [18, 18, 18]
    for axes, panel in zip(figure.axes, (BESIDE[:18], BESIDE[18:36], BESIDE[36:]), strict=True):
        bars, ticks, dots = axes.collections
        assert [tuple(line[:, 0]) for line in bars.get_segments()] == [(89.5, 91.0)] * 18
        assert ticks.get_offsets()[:, 0].tolist() == [row.value for row in panel]
        assert dots.get_offsets()[:, 0].tolist() == [row.printed for row in panel]
        assert [color[3] > 0 for color in dots.get_facecolors()] == [row.within_draws for row in panel]


def test_a_cell_without_draws_is_neither_inside_nor_outside():
    bare = [replace(row, draws_min=None, draws_max=None, within_draws=None) for row in BESIDE[:2]]
    figure = partition_figure.draw_ranges([*bare, *BESIDE[2:]], SPEC, "model", "t")
    fills = [tuple(fill) for axes in figure.axes for fill in axes.collections[2].get_facecolors()]
    assert fills.count(to_rgba(style.FAINT)) == 2
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[2:] == ["printed, inside the range", "printed, outside", "printed, no draws"]


def test_the_legend_of_ranges_fits_on_the_page_and_drawn_twice_it_is_the_same(tmp_path):
    for name in "ab":
        figure = partition_figure.draw_ranges(BESIDE, SPEC, "model", "t")
        style.save(figure, tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0
    assert legend.x1 <= figure.bbox.x1


def test_ranges_without_numbers_say_what_to_do():
    with pytest.raises(UserError, match="run the item first"):
        partition_figure.draw_ranges((), SPEC, "model", "t")
    with pytest.raises(UserError, match="no key 'colour'"):
        partition_figure.draw_ranges(BESIDE, SPEC, "colour", "t")
