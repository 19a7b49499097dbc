"""Every item's runs find their cells, at every scale, before a run of hours ends in a table that cannot be made."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_items
from leaklab.records.config import SCALES
from leaklab.report.collect import attempts
from leaklab.report.collect.source import Source, row_of

ROOT = Path(__file__).parents[3]
ITEMS = [item for item in load_items(ROOT / "config/items").values() if not item.planned]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.key)
def test_no_two_attacks_share_a_place(monkeypatch, item, scale):
    monkeypatch.setattr(attempts, "_scores", lambda runs: pd.DataFrame())
    source = SimpleNamespace(item=item, row=lambda run: Source.row(SimpleNamespace(item=item), run))
    for stage in ("score", "score-text"):
        runs = [run for run in expand(item, scale) if run.spec is not None and run.spec.stage == stage]
        cells = attempts.cells_of(source, runs)
        assert sum(len(one.ids) for cell in cells for one in cell.attempts) == len(runs)


@pytest.mark.parametrize("item", [item for item in ITEMS if item.cells is not None], ids=lambda item: item.key)
def test_row_keys_point_into_all_runs(item):
    for scale in SCALES:
        for run in expand(item, scale):
            assert row_of(item, run).keys() == item.cells.row.keys(), (scale, run.block)


@pytest.mark.parametrize("item", [item for item in ITEMS if item.pictures is not None], ids=lambda item: item.key)
def test_below_a_picture_is_room_for_two_scores(item):
    assert len(item.pictures.scores) <= 2
