"""From an item and its result table to picture and numbers, for figures whose numbers are lines."""

from pathlib import Path

import numpy as np
import pytest

from leaklab.records.errors import UserError
from leaklab.records.recorder import Recorder
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.steps.base import Job
from leaklab.steps.make_figure import run

PAPERS = Path(__file__).parents[2] / "config" / "papers"
ITEM = """
paper: lrp
item: {item}
number: 12
kind: figure
title: A title
renderer: {renderer}
runs: {{a: {{stage: train}}}}
{layout}
scales: {{small: {{}}}}
"""
CURVES = "curves: {x: round, y: loss, lines: [method]}"
PATHS = "paths: {x: x, y: y, paths: [client], points: {optimum: [ox, oy]}}"


def row(metric, value, **keys):
    return ResultRow("lrp", "figure5", keys, metric, value)


ROWS = (
    *(row("round", float(5 * i), method=m, index=i) for m in ("a", "b") for i in range(3)),
    *(row("loss", 3.0 - i, method=m, index=i) for m in ("a", "b") for i in range(3)),
    *(row(metric, float(i), client=1, index=i) for metric in ("x", "y") for i in range(3)),
    row("ox", 1.0),
    row("oy", 2.0),
    ResultRow("lrp", "figure5", {"method": "c"}, "loss", None, n=0, note="not run: data not here: X"),
)


def job(folder, renderer, layout):
    item = folder / "config/items/lrp/figure5.yaml"
    item.parent.mkdir(parents=True)
    item.write_text(ITEM.format(item="figure5", renderer=renderer, layout=layout))
    ResultTable(ROWS).write(folder / "figure5.csv")
    return Job(
        spec={"scale": "small"},
        inputs={
            "item": [item],
            "csv": [folder / "figure5.csv"],
            "targets": [PAPERS / "targets.csv"],
            "tolerances": [PAPERS / "tolerances.yaml"],
        },
        outputs={name: folder / f"figure5.{name}" for name in ("png", "pdf", "data")},
        device="cpu",
        recorder=Recorder(rule="make_figure"),
    )


@pytest.mark.parametrize(
    ("renderer", "layout", "name", "numbers"),
    [
        ("curves", CURVES, "loss, method b: y", [3, 2, 1]),
        ("curves", CURVES, "loss, method b: x", [0, 5, 10]),
        ("paths", PATHS, "client 1", [[0, 0], [1, 1], [2, 2]]),
        ("paths", PATHS, "optimum", [[1, 2]]),
    ],
)
def test_picture_and_numbers_are_written(tmp_path, renderer, layout, name, numbers):
    made = job(tmp_path, renderer, layout)
    run(made)
    assert made.outputs["png"].read_bytes().startswith(b"\x89PNG")
    assert made.outputs["pdf"].read_bytes().startswith(b"%PDF")
    with np.load(made.outputs["data"]) as kept:
        assert kept[name].tolist() == numbers


@pytest.mark.parametrize("renderer", ["curves", "paths", "table"])
def test_a_renderer_without_its_layout_is_named(tmp_path, renderer):
    with pytest.raises(UserError, match=rf"figure5\.yaml: renderer {renderer} needs a section '{renderer}'"):
        run(job(tmp_path, renderer, ""))
