"""A diagram is drawn from its description, says what does not fit, and shows only numbers that are its own."""

import numpy as np
import pytest
from pydantic import ValidationError

from leaklab.items.diagram_layout import DiagramLayout
from leaklab.items.items import load_items
from leaklab.records.errors import UserError
from leaklab.report.figures import diagram_figure, style
from leaklab.report.figures.diagram_figure import Bar
from leaklab.report.numbers.results import ResultRow, ResultTable

BOXES = {"left": {"text": "left", "at": [0, 0]}, "right": {"text": "right", "at": [2, 0], "look": "seen"}}


def layout(**more):
    return DiagramLayout.model_validate({"boxes": BOXES, **more})


def row(value, attacker="paper", **keys):
    return ResultRow("p", "i", keys, "ssim", value, attacker=attacker)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_text_is_drawn_and_bytes_repeat(tmp_path):
    drawn = layout(
        arrows=[{"from": "left", "to": "right", "text": "sends", "dashed": True}],
        frames=[{"text": "client", "boxes": ["left"]}],
        note="a note",
    )
    figures = [diagram_figure.draw(drawn, [], "A title") for _ in range(2)]
    assert {"left", "right", "sends", "client"} <= set(texts(figures[0]))
    for name, figure in zip("ab", figures, strict=True):
        style.save(figure, tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_a_text_that_does_not_fit_is_refused():
    boxes = {**BOXES, "left": {"text": "a text that is much too long for its box", "at": [0, 0]}}
    with pytest.raises(UserError, match="text of box 'left' does not fit into it: break it"):
        diagram_figure.draw(layout(boxes=boxes), [], "A title")


@pytest.mark.parametrize("part", [{"arrows": [{"from": "left", "to": "top"}]},
                                  {"frames": [{"text": "x", "boxes": ["top"]}]}])  # fmt: skip
def test_a_box_that_does_not_exist_is_refused(part):
    with pytest.raises(ValidationError, match="there is no box 'top': name one of left, right"):
        layout(**part)


def test_bars_are_the_numbers_of_the_boxes_alone():
    shown = layout(bars={"metric": "ssim", "key": "way", "label": "steps"}, labels={"steps": {"1": "1 step"}})
    rows = (
        row(0.5, way="left", steps=1),
        row(0.9, way="left", steps=2),
        row(0.1, way="elsewhere", steps=1),
        row(0.2, way="left", steps=1, selection="oracle"),
        row(0.3, way="right", steps=1, attacker="knowing"),
        row(None, way="right", steps=1),
    )
    measured = diagram_figure.bars(shown, ResultTable(rows))
    assert measured == [Bar("left", "1 step", 0.5), Bar("left", "2", 0.9)]
    assert {key: float(value[0]) for key, value in diagram_figure.arrays(measured).items()} == {
        "left/1 step": 0.5,
        "left/2": 0.9,
    }
    figure = diagram_figure.draw(shown, measured, "A title")
    assert {"1 step", "0.50", "0.90"} <= set(texts(figure))
    widths = [patch.get_width() for patch in figure.axes[0].patches if type(patch).__name__ == "Rectangle"]
    assert np.isclose(widths[1] / widths[0], 0.9 / 0.5)
    assert diagram_figure.bars(layout(), ResultTable(rows)) == []


@pytest.mark.parametrize("bend", [0.0, 0.4])
def test_the_text_of_an_arrow_stands_on_its_curve(bend):
    arrow = {"from": "left", "to": "right", "text": "sends", "bend": bend}
    figure = diagram_figure.draw(layout(arrows=[arrow]), [], "A title")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    (text,) = [text for text in axes.texts if text.get_text() == "sends"]
    (patch,) = [patch for patch in axes.patches if type(patch).__name__ == "FancyArrowPatch"]
    line = [segment for segment, _ in patch.get_path().iter_bezier()][1]
    fine = patch.get_transform().transform(line(np.linspace(0, 1, 200)))
    place = axes.transData.transform(text.get_position())
    assert np.linalg.norm(fine - place, axis=1).min() < 2
    assert (bend == 0) == bool(np.isclose(text.get_position()[1], 0))


def test_a_diagram_needs_no_runs():
    item = load_items()["outpost/figure1"]
    assert item.made
    assert not item.runs
