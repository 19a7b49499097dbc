"""Figures of curves and paths: what they show, that nothing is cut off, and that they are the same in every run."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb

from leaklab.items.layouts import CurvesLayout, PathsLayout, TargetLine
from leaklab.records.errors import UserError
from leaklab.report.figures import curves_figure, plane_figure, style
from leaklab.report.numbers import series
from leaklab.report.numbers.results import ResultRow, ResultTable

METHODS = ("vanilla", "vanilla-scaled", "lrp", "ada-lrp")


def row(metric, value, std=None, unit="", note="", **keys):
    return ResultRow("lrp", "figure5", keys, metric, value, std=std, unit=unit, note=note)


def convergence():
    rows = []
    for place, method in enumerate(METHODS):
        for index in range(40):
            loss = 0.5 + 0.02 * place + math.exp(-index / (8 - place))
            rows.append(row("round", float(5 * index), method=method, index=index))
            rows.append(row("train_loss", loss, std=0.02, method=method, index=index))
            rows.append(row("test_accuracy", 95 - 20 * loss, std=0.5, unit="%", method=method, index=index))
    return ResultTable(tuple(rows))


CONVERGENCE = CurvesLayout(
    x="round",
    y=("train_loss", "test_accuracy"),
    lines=("method",),
    panels=("metric",),
    band="std",
    titles={"train_loss": "training loss"},
    labels={"method": {"vanilla": "vanilla (scheme I)", "ada-lrp": "ada-LRP"}},
    targets=(TargetLine(value=85.5, label="target", where={"metric": "test_accuracy"}),),
    note="Mean over three seeds.",
)


def drawn(figure):
    with style.styled():
        figure.savefig(io.BytesIO(), format="png", dpi=style.DOTS_PER_INCH)
    return figure


@pytest.fixture(scope="module")
def figure():
    found = series.curves(CONVERGENCE, convergence())
    return drawn(curves_figure.draw(CONVERGENCE, found, "Convergence on non-IID MNIST (scale small)", ["Not run: X."]))


def all_texts(figure):
    own = [*figure.texts, *(t for legend in figure.legends for t in legend.get_texts())]
    in_axes = [t for axes in figure.axes for t in (axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts)]
    return [text for text in (*own, *in_axes) if text.get_text()]


class TestConvergence:
    def test_one_panel_per_metric_with_its_unit_and_one_line_per_method(self, figure):
        assert [axes.get_ylabel() for axes in figure.axes] == ["training loss", "test accuracy (%)"]
        assert [axes.get_xlabel() for axes in figure.axes] == ["", "round"]
        for axes in figure.axes:
            assert sum(len(line.get_xdata()) == 40 for line in axes.lines) == 4

    def test_the_legend_names_the_lines_once(self, figure):
        (legend,) = figure.legends
        assert [t.get_text() for t in legend.get_texts()] == ["vanilla (scheme I)", "ada-LRP", "vanilla-scaled", "lrp"]

    def test_the_target_is_in_its_panel_only(self, figure):
        assert [[t.get_text() for t in axes.texts] for axes in figure.axes] == [[], ["target"]]

    def test_a_band_is_the_tables_standard_deviation_around_the_tables_line(self, figure):
        found = series.curves(CONVERGENCE, convergence())
        for axes, metric in zip(figure.axes, ("train_loss", "test_accuracy"), strict=True):
            own = [curve for curve in found if curve.metric == metric]
            for curve, band in zip(own, axes.collections, strict=True):
                edges = {tuple(point) for point in band.get_paths()[0].vertices}
                for bound in (curve.y - curve.std, curve.y + curve.std):
                    assert edges >= set(zip(curve.x, bound, strict=True))

    def test_a_line_is_the_tables_numbers(self, figure):
        shown = {tuple(line.get_ydata()) for axes in figure.axes for line in axes.lines}
        assert shown >= {tuple(curve.y) for curve in series.curves(CONVERGENCE, convergence())}

    def test_nothing_of_it_stays_in_a_window(self, figure):
        assert not pyplot.get_fignums()

    def test_the_notes_are_there(self, figure):
        text = "\n".join(text.get_text() for text in figure.texts)
        for note in ("one standard deviation", "Mean over three seeds.", "Not run: X."):
            assert note in text

    def test_no_text_leaves_the_page_and_none_covers_another(self, figure):
        boxes = [text.get_window_extent() for text in all_texts(figure)]
        page = figure.bbox
        for place, box in enumerate(boxes):
            assert box.x0 >= page.x0
            assert box.x1 <= page.x1
            assert box.y0 >= page.y0
            assert box.y1 <= page.y1
            assert not any(box.overlaps(other) for other in boxes[place + 1 :]), all_texts(figure)[place]
        panels = [axes.get_tightbbox() for axes in figure.axes]
        (legend,) = [legend.get_window_extent() for legend in figure.legends]
        assert not any(legend.overlaps(panel) for panel in panels)

    def test_letters_keep_their_size_on_a_phone(self, figure):
        # 360 points wide
        shrinks = 360 / (figure.get_figwidth() * 72)
        assert min(text.get_fontsize() for text in all_texts(figure)) * shrinks >= 7

    def test_the_same_numbers_give_the_same_bytes(self, tmp_path):
        for name in ("a", "b"):
            found = series.curves(CONVERGENCE, convergence())
            style.save(curves_figure.draw(CONVERGENCE, found, "T"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
        for kind in ("png", "pdf"):
            assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()

    def test_the_numbers_are_kept(self):
        found = curves_figure.arrays(CONVERGENCE, series.curves(CONVERGENCE, convergence()))
        assert len(found) == 2 * 4 * 3
        assert found["train_loss, method lrp: x"].tolist() == list(range(0, 200, 5))
        assert found["test_accuracy, method lrp: std"].tolist() == [0.5] * 40


class TestDifferences:
    LAYOUT = CONVERGENCE.model_copy(
        update={"difference_to": {"method": "vanilla"}, "band": "", "units": {"train_loss": "nats"}}
    )

    def figure(self, layout=LAYOUT):
        return drawn(curves_figure.draw(layout, series.curves(layout, convergence()), "Convergence"))

    def test_below_each_panel_stands_the_difference_in_the_same_unit(self):
        labels = [axes.get_ylabel() for axes in self.figure().axes]
        assert labels == ["training loss (nats)", "difference (nats)", "test accuracy (%)", "difference (points)"]

    def test_a_line_is_the_curve_minus_the_one_it_is_compared_with(self):
        curves = {dict_of(c.line): c for c in series.curves(self.LAYOUT, convergence()) if c.metric == "train_loss"}
        below = self.figure().axes[1]
        drawn_lines = sorted(tuple(line.get_ydata().tolist()) for line in below.lines if len(line.get_xdata()) == 40)
        expected = [tuple((curve.y - curves["vanilla"].y).tolist()) for curve in curves.values()]
        assert drawn_lines == sorted(expected)
        assert max(abs(y) for y in max(drawn_lines)) > 0.05

    def test_around_zero_lies_the_standard_deviation_of_the_one_compared_with(self):
        above, below, *_ = self.figure().axes
        assert not above.collections
        (band,) = [c for c in below.collections if len(c.get_paths()) and len(c.get_paths()[0].vertices)]
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == pytest.approx((-0.02, 0.02))

    def test_the_lines_decide_how_far_the_axis_goes(self):
        wide = ResultTable(tuple(replace(row, std=50.0) for row in convergence().rows))
        figure = drawn(curves_figure.draw(self.LAYOUT, series.curves(self.LAYOUT, wide), "Convergence"))
        low, high = figure.axes[1].get_ylim()
        assert high - low < 1.0

    def test_it_says_to_what_and_what_the_band_is(self):
        texts = " ".join(text.get_text() for text in self.figure().texts).replace("\n", " ")
        assert "Difference: to vanilla (scheme I); shaded: its standard deviation over the replicates" in texts

    def test_without_replicates_no_band_is_promised(self):
        plain = ResultTable(tuple(replace(row, std=None) for row in convergence().rows))
        figure = drawn(curves_figure.draw(self.LAYOUT, series.curves(self.LAYOUT, plain), "Convergence"))
        assert "shaded" not in " ".join(text.get_text() for text in figure.texts)

    def test_curves_at_other_places_are_compared_where_both_have_a_number(self):
        rows = [row("loss", float(x * x), method="vanilla", E=x) for x in (1, 2, 4)]
        rows += [row("loss", float(x), method="lrp", E=x) for x in (2, 3, 4)]
        layout = CurvesLayout(x="E", y="loss", lines=("method",), difference_to={"method": "vanilla"})
        found = series.differences(layout, series.curves(layout, ResultTable(tuple(rows))))
        assert [(c.x.tolist(), c.y.tolist()) for c in found] == [([1, 2, 4], [0, 0, 0]), ([2, 4], [-2, -12])]

    def test_an_unknown_line_is_refused(self):
        layout = self.LAYOUT.model_copy(update={"difference_to": {"method": "fedprox"}})
        with pytest.raises(UserError, match="difference_to: no line has method fedprox"):
            self.figure(layout)

    def test_the_differences_are_kept_with_the_numbers(self):
        found = curves_figure.arrays(self.LAYOUT, series.curves(self.LAYOUT, convergence()))
        lrp = found["train_loss, method lrp: y"] - found["train_loss, method vanilla: y"]
        assert found["difference of train_loss, method lrp: y"].tolist() == lrp.tolist()

    def test_no_text_covers_another(self):
        boxes = [text.get_window_extent() for text in all_texts(self.figure())]
        assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[place + 1 :])


def dict_of(line):
    return line[0][1]


def test_the_first_lines_differ_in_dashes_in_marks_and_in_color():
    rows = [row("loss", float(x * k), method=f"method {k}", E=x) for k in range(9) for x in (1, 2)]
    layout = CurvesLayout(x="E", y="loss", lines=("method",))
    (axes,) = curves_figure.draw(layout, series.curves(layout, ResultTable(tuple(rows))), "Many").axes
    lines = axes.lines[:5]
    for looks in ({line.get_color() for line in lines}, {line.get_marker() for line in lines},
                  {str(line._dash_pattern) for line in lines}):  # fmt: skip
        assert len(looks) == 5
    assert all(np.dot(to_rgb(line.get_color()), (0.3, 0.6, 0.1)) < 0.75 for line in lines), "too faint on white"
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == 9


def test_a_line_is_broken_where_a_number_is_missing():
    values = {1: 1.0, 2: 2.0, 3: None, 4: 4.0, 5: 5.0}
    rows = [row("loss", value, note="" if value else "capped: so", method="lrp", E=x) for x, value in values.items()]
    layout = CurvesLayout(x="E", y="loss")
    figure = drawn(curves_figure.draw(layout, series.curves(layout, ResultTable(tuple(rows))), "Gap"))
    (axes,) = figure.axes
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 2], [4, 5], [3], [3]]
    assert not figure.legends


def test_an_interval_is_the_tables_and_stands_at_its_mark():
    rows = [
        replace(row("mse", float(x), std=9.0, method="lrp", E=x), ci_low=x - 0.5, ci_high=x + 0.25 if x < 3 else None)
        for x in (1, 2, 3)
    ]
    layout = CurvesLayout(x="E", y="mse", band="interval")
    figure = drawn(curves_figure.draw(layout, series.curves(layout, ResultTable(tuple(rows))), "Intervals"))
    (bars,) = figure.axes[0].collections
    assert [segment.tolist() for segment in bars.get_segments()[:2]] == [[[1, 0.5], [1, 1.25]], [[2, 1.5], [2, 2.25]]]
    assert "Upright bars: 95 % intervals." in " ".join(text.get_text() for text in all_texts(figure))


def test_two_places_of_a_line_may_fall_on_one_x_and_two_lines_may_not():
    def at(**keys):
        return [row("accuracy", 70.0, **keys), row("mse", float(keys.get("index", 1)), **keys)]

    layout = CurvesLayout(x="accuracy", y="mse")
    (curve,) = series.curves(layout, ResultTable((*at(index=1), *at(index=2))))
    assert (curve.x.tolist(), curve.y.tolist()) == ([70.0, 70.0], [1.0, 2.0])
    with pytest.raises(UserError, match="two numbers at one x"):
        series.curves(layout, ResultTable((*at(index=1, method="a"), *at(index=1, method="b"))))
    compared = layout.model_copy(update={"lines": ("method",), "difference_to": {"method": "a"}})
    lines = [one for index in (1, 2) for method in ("a", "b") for one in at(index=index, method=method)]
    found = series.curves(compared, ResultTable(tuple(lines)))
    with pytest.raises(UserError, match="two numbers at one x"):
        series.differences(compared, found)


def test_two_lines_of_one_name_are_refused():
    layout = CONVERGENCE.model_copy(update={"labels": {"method": {"vanilla": "FedAvg", "lrp": "FedAvg"}}})
    with pytest.raises(UserError, match="'FedAvg' stands for two lines"):
        curves_figure.draw(layout, series.curves(layout, convergence()), "Twice")


class TestRowKeyAsX:
    LAYOUT = CurvesLayout(x="E", y="rounds", lines=("partition",), log=("x", "y"), titles={"E": "local steps E"})

    def figure(self):
        rows = []
        for name in ("iid", "non-iid"):
            for steps in (1, 2, 5, 10, 20, 50, 100, 200):
                value = None if steps == 1 else 1000 / steps + steps
                note = "capped: 3 of 3 runs did not get there" if value is None else ""
                rows.append(row("rounds", value, unit="rounds", note=note, partition=name, E=steps))
        return drawn(curves_figure.draw(self.LAYOUT, series.curves(self.LAYOUT, ResultTable(tuple(rows))), "Rounds"))

    def test_every_x_has_its_tick(self):
        (axes,) = self.figure().axes
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5", "10", "20", "50", "100", "200"]
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert not any("10^" in label.get_text() for label in axes.get_yticklabels())

    def test_where_there_is_no_number_a_hollow_mark_says_so(self):
        figure = self.figure()
        hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none"]
        assert [line.get_xdata().tolist() for line in hollow] == [[1], [1]]
        # above the axis, where no value could be read off
        assert all(min(line.get_ydata()) > 1 for line in hollow)
        arrows = [line for line in figure.axes[0].lines if "arrow" in str(line.get_marker())]
        assert [line.get_xdata().tolist() for line in arrows] == [[1], [1]]
        title = figure._suptitle.get_window_extent().y0
        assert all(line.get_window_extent().y1 < title for line in arrows)
        assert "no number (capped)" in "".join(text.get_text() for text in figure.texts)

    def test_a_unit_is_not_said_twice(self):
        assert self.figure().axes[0].get_ylabel() == "rounds"


def frontier(*better):
    rows = []
    for place, (name, low) in enumerate((("noise", 40.0), ("LRP", 0.2))):
        for strength in (1, 2, 3):
            keys = {"defense": name, "index": strength}
            rows.append(row("test_accuracy", 70.0 + strength + 10 * place, unit="%", **keys))
            rows += [replace(row("psnr", low + 0.1 * strength, unit="dB", **keys), better=one) for one in better]
    layout = CurvesLayout(x="test_accuracy", y=("psnr",), panels=("defense",))
    found = series.curves(layout, ResultTable(tuple(rows)))
    return drawn(curves_figure.draw(layout, found, "A frontier"))


def test_both_axes_say_their_unit_and_y_which_way_is_better():
    figure = frontier("lower")
    assert figure.axes[1].get_xlabel() == "test accuracy (%)"
    assert figure.get_supylabel() == "psnr (dB) ↓"
    assert any("arrow at an axis points to what is better" in text.get_text() for text in all_texts(figure))
    plain = frontier("")
    assert plain.get_supylabel() == "psnr (dB)"
    assert not any("arrow at an axis" in text.get_text() for text in all_texts(plain))


def test_a_panel_of_a_small_range_has_room_for_its_marks_on_the_shared_axis():
    for axes in frontier("lower").axes:
        low, high = axes.get_ylim()
        values = np.concatenate([np.ravel(line.get_ydata()) for line in axes.lines])
        room = 0.02 * (high - low)
        assert low + room < np.nanmin(values) <= np.nanmax(values) < high - room


def test_many_panels_share_one_axis_label():
    rows = [
        row(metric, 1.0 / (index + 1), index=index, K=k, E=e)
        for metric in ("gap", "bound")
        for k in (5, 10)
        for e in (1, 5, 20)
        for index in range(30)
    ]
    steps = [row("step", index + 1.0, index=index) for index in range(30)]
    layout = CurvesLayout(
        x="step", y=("gap", "bound"), lines=("metric",), panels=("K", "E"), log=("x", "y"), titles={"y": "gap"}
    )
    figure = drawn(curves_figure.draw(layout, series.curves(layout, ResultTable((*rows, *steps))), "Bound"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "5 · 1",
        "5 · 5",
        "5 · 20",
        "10 · 1",
        "10 · 5",
        "10 · 20",
    ]
    assert figure._supylabel.get_text() == "gap"


class TestPaths:
    LAYOUT = PathsLayout(x="x", y="y", paths=("client",), panels=("rates",), points={"optimum": ("ox", "oy")})

    @pytest.fixture
    def parts(self):
        rows = [
            row(metric, value, client=f"client {client}", rates=rates, index=index)
            for rates in ("equal", "adapted")
            for client in (1, 2)
            for index in range(4)
            for metric, value in (("x", index * 0.3 * client), ("y", index * 0.9))
        ]
        results = ResultTable((*rows, row("ox", 0.5), row("oy", 3.0)))
        return series.paths(self.LAYOUT, results), series.points(self.LAYOUT, results)

    def test_panels_share_their_part_of_the_plane_at_equal_scales(self, parts):
        figure = drawn(
            plane_figure.draw_paths(self.LAYOUT, *parts, "Drift of two clients with equal and with adapted rates")
        )
        first, second = figure.axes
        assert first.get_xlim() == pytest.approx(second.get_xlim())
        assert first.get_ylim() == pytest.approx(second.get_ylim())
        for axes in figure.axes:
            box, (left, right), (low, high) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
            assert box.width / (right - left) == pytest.approx(box.height / (high - low), rel=1e-3)
            assert left < 0 < 1.8 < right
            assert low < 0 < 3.0 < high

    def test_nothing_covers_another(self, parts):
        figure = drawn(
            plane_figure.draw_paths(self.LAYOUT, *parts, "Drift of two clients with equal and with adapted rates")
        )
        boxes = [axes.get_tightbbox() for axes in figure.axes]
        boxes += [legend.get_window_extent() for legend in figure.legends]
        boxes += [text.get_window_extent() for text in figure.texts]
        for place, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[place + 1 :])

    def test_each_step_has_its_arrow_and_each_point_its_sign(self, parts):
        figure = drawn(plane_figure.draw_paths(self.LAYOUT, *parts, "Drift"))
        assert [len(axes.texts) for axes in figure.axes] == [2 * 3, 2 * 3]
        for axes in figure.axes:
            (star,) = axes.collections
            assert star.get_offsets().tolist() == [[0.5, 3.0]]
            assert sum(line.get_markerfacecolor() == "white" for line in axes.lines) == 2
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert labels == ["client 1", "client 2", "optimum"]

    def test_the_numbers_are_kept(self, parts):
        found = plane_figure.path_arrays(self.LAYOUT, *parts)
        assert found["rates equal, client client 2"].tolist()[1] == pytest.approx([0.6, 0.9])
        assert found["optimum"].tolist() == [[0.5, 3.0]]


def leakage():
    """Two attackers and a model's accuracy over rounds that begin at 0."""
    rows = []
    for round_, accuracy in ((0, 10.0), (5, 60.0), (100, 90.0)):
        rows.append(row("test_accuracy", accuracy, unit="%", method="lrp", round=round_))
        for attacker, psnr in (("paper", 6.0), ("knowing", 60.0 - round_ / 10)):
            keys = {"method": "lrp", "round": round_}
            rows.append(ResultRow("lrp", "figure-training", keys, "psnr_median", psnr, attacker=attacker, unit="dB"))
    return ResultTable(tuple(rows))


def test_both_attackers_have_panels_with_one_axis_and_round_0_stands_on_it():
    layout = CurvesLayout(
        x="round",
        y=("psnr_median", "test_accuracy"),
        lines=("method",),
        panels=("metric", "attacker"),
        attackers=("paper", "knowing", ""),
        log=("x",),
    )
    figure = drawn(curves_figure.draw(layout, series.curves(layout, leakage()), "Leakage along a training"))
    paper, knowing, accuracy = (axes for axes in figure.axes if axes.get_visible())
    assert [axes.get_title(loc="left") for axes in (paper, knowing, accuracy)] == ["paper", "knowing", ""]
    assert paper.get_ylim() == knowing.get_ylim() != accuracy.get_ylim()
    assert paper.get_ylim()[0] < 6 < 60 < paper.get_ylim()[1]
    places = paper.transData.transform([(x, 6.0) for x in (0, 5, 100)])[:, 0]
    assert np.all(np.isfinite(places))
    assert places[1] - places[0] > 0.2 * (places[2] - places[0])
    assert [float(tick) for tick in paper.get_xticks()] == [0, 5, 100]


def test_without_a_word_the_knowing_attacker_is_not_shown():
    layout = CurvesLayout(x="round", y="psnr_median", lines=("method",))
    (curve,) = series.curves(layout, leakage())
    assert curve.y.tolist() == [6.0, 6.0, 6.0]
