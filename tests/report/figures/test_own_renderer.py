"""A figure of one's own is one file: nothing else in the house is touched."""

import numpy as np
import pytest
import yaml

from leaklab.items.items import ITEMS, Item
from leaklab.planning.code import code_of_result
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.report.figures.drawings import draw
from leaklab.report.judge.printed import Printed
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultRow, ResultTable

STRIP = '''
"""All values of a table on one line."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from leaklab.items.items import Item
from leaklab.report.numbers.results import ResultTable


@dataclass(frozen=True)
class Strip:
    """Draw a metric.

    Attributes:
        metric: which.
        width: of the figure, in inches.
    """

    metric: str
    width: float = 4.0

    def draw(self, item: Item, results: ResultTable) -> tuple[Figure, Mapping[str, NDArray[np.float64]]]:
        """See ``drawings.Renderer``."""
        values = np.array([row.value for row in results.rows if row.metric == self.metric], dtype=np.float64)
        figure = Figure(figsize=(self.width, 1))
        figure.subplots().plot(values, np.zeros_like(values), "|")
        return figure, {"values": values}


PLUGIN = Strip
'''
ROWS = ResultTable(tuple(ResultRow("lrp", "mine", {"k": k}, "mse", v) for k, v in enumerate((0.25, 0.5))))
SECTION = {
    "paper": "lrp", "item": "mine", "number": 1, "title": "Mine", "kind": "figure", "renderer": "strip",
    "runs": {"train": {}}, "figure": {"metric": "mse", "width": 3.0},
}  # fmt: skip


@pytest.fixture
def strip(plant):
    plant("strip", STRIP, "report/figures")


@pytest.mark.usefixtures("strip")
def test_it_draws_what_its_item_says(tmp_path):
    drawn = draw(Item(**SECTION), "demo", ROWS, Printed(ResultTable(()), Tolerances(classes={}, rules=())))
    assert drawn.figure.get_size_inches().tolist() == [3.0, 1.0]
    drawn.write(tmp_path / "numbers.npz")
    assert np.load(tmp_path / "numbers.npz")["values"].tolist() == [0.25, 0.5]


@pytest.mark.usefixtures("strip")
def test_its_code_is_that_of_its_figures_and_of_no_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, section in {"mine": SECTION, "theirs": {**SECTION, "renderer": "table", "figure": {}}}.items():
        (ITEMS / "lrp").mkdir(parents=True, exist_ok=True)
        (ITEMS / "lrp" / f"{name}.yaml").write_text(yaml.safe_dump({**section, "item": name}), encoding="utf-8")
    assert code_of_result("make_figure", "lrp", "mine", "demo").plugins == (("report/figures", "strip"),)
    assert code_of_result("make_figure", "lrp", "theirs", "demo").plugins == ()


@pytest.mark.usefixtures("strip")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"renderer": "stripe"}, "there is no renderer 'stripe': choose from .*curves.*strip.*or write one"),
        ({"figure": {"metric": "mse", "height": 3}}, "no setting 'height': it accepts metric, width"),
        ({"figure": {}}, "needs the setting 'metric'"),
        ({"renderer": "table"}, "renderer 'table' has a section of its own"),
    ],
)
def test_a_slip_is_named(changed, said, tmp_path):
    with pytest.raises(UserError, match=said):
        parse(Item, {**SECTION, **changed}, tmp_path / "mine.yaml")
