"""Figures of operation: one command replaces its own and leaves the others; the audit's project can be audited."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from operations.__main__ import merged
from operations.auditing import FILES, RECORD, _project
from operations.measures import timed
from operations.page import write_page

from leaklab.records.ledger import Ledger

HEAD = {"unit": "s", "note": "", "machine": "a machine", "load": 3.5}


def test_figures_of_a_measured_section_replace_the_older_ones():
    known = pd.DataFrame(
        [{"section": "plan", "what": "old", "value": 1.0}, {"section": "audit", "what": "b", "value": 2.0}]
    )
    found = merged(known, pd.DataFrame([{"section": "plan", "what": "new", "value": 3.0}]))
    assert found[["section", "what"]].to_numpy().tolist() == [["plan", "new"], ["audit", "b"]]


def test_the_page_has_a_section_for_each_table_that_is_there(tmp_path):
    pd.DataFrame([{"section": "audit", "what": "all", "value": 1.234, **HEAD}]).to_csv(tmp_path / "operations.csv")
    text = write_page(tmp_path)
    assert "## The audit" in text
    assert "| all | 1.23 s |  |" in text
    assert "## Faults" not in text
    assert (tmp_path / "operations.md").read_text() == text


def test_made_up_runs_have_records_of_their_own_bytes(tmp_path):
    (tmp_path / "checkout").mkdir()
    for name in ("src", "config", "workflow"):
        (tmp_path / "checkout" / name).mkdir()
    (tmp_path / "checkout/pyproject.toml").touch()
    (tmp_path / "checkout" / RECORD).parent.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[2] / RECORD, tmp_path / "checkout" / RECORD)
    folder = _project(tmp_path / "checkout", tmp_path / "made", 10)
    entries = Ledger.scan(folder).entries
    assert len(entries) == FILES
    (name,) = entries[0].outputs
    assert (folder / name).stat().st_size == 10


def test_a_command_that_fails_is_no_figure():
    with pytest.raises(RuntimeError, match="ended with 3"):
        timed("sh", "-c", "exit 3")
    assert json.loads(timed("echo", "1").text) == 1
