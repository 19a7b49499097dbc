"""From an item to its result table in three forms; an item that is drawn gets a pointer in place of a table."""

from pathlib import Path

import pytest

from leaklab.records.recorder import Recorder
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.steps import make_table
from leaklab.steps.base import Job

PAPERS = Path(__file__).parents[2] / "config" / "papers"
ITEM = """
paper: lrp
item: figure5
number: 12
kind: figure
title: A title
renderer: curves
runs: {{a: {{stage: train}}}}
{layout}
scales: {{small: {{}}}}
"""
RESULTS = ResultTable(
    (
        ResultRow("lrp", "figure5", {"method": "a"}, "loss", 1.5),
        ResultRow("lrp", "figure5", {"method": "b"}, "loss", None, note="not run: data not here: X"),
    )
)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Return a function from a layout to the texts of the three files."""
    monkeypatch.setattr(make_table, "collect", lambda item, scale: RESULTS)

    def make(layout):
        item = tmp_path / "config/items/lrp/figure5.yaml"
        item.parent.mkdir(parents=True)
        item.write_text(ITEM.format(layout=layout))
        outputs = {name: tmp_path / f"figure5.{name}" for name in ("csv", "markdown", "latex")}
        inputs = {"item": [item], "targets": [PAPERS / "targets.csv"], "tolerances": [PAPERS / "tolerances.yaml"]}
        make_table.run(Job({"scale": "small"}, inputs, outputs, "cpu", Recorder(rule="make_table")))
        return {name: path.read_text() for name, path in outputs.items()}

    return make


def test_an_item_with_a_table_has_its_numbers_in_all_forms(texts):
    made = texts("table: {rows: [method], columns: [metric], metric: loss, format: '{value:.1f}'}")
    assert all("1.5" in text for text in made.values())


def test_an_item_without_one_has_a_line_that_says_where_to_look(texts):
    made = texts("")
    pointer = "A title: drawn, not tabulated; see figure5.png among the figures, and figure5.csv"
    assert (made["markdown"], made["latex"]) == (f"{pointer}\n", f"% {pointer}\n")
    assert "1.5" in made["csv"]
