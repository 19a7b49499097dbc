"""Times in the future become that of now, and no others change."""

import os
import time
from pathlib import Path

import pytest

from leaklab.planning.times import TOLERANCE, bring_to_now

YEAR = 365 * 86400


@pytest.fixture
def files(tmp_path):
    """Return files of two years and of a moment that clocks may differ by."""
    found = {}
    for name, shift in (("results/runs/a/scores.csv", YEAR), ("data/prepared/b.json", YEAR), ("results/c.csv", -YEAR),
                        ("results/d.csv", TOLERANCE / 2), ("logs/e.log", YEAR)):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
        os.utime(path, (time.time() + shift,) * 2)
        found[name] = path
    return found


def times(files):
    return {name: path.stat().st_mtime for name, path in files.items()}


def test_only_what_lies_in_the_future_changes(files, tmp_path):
    before, began = times(files), time.time()
    said = bring_to_now(tmp_path)
    after = times(files)
    assert {name for name in files if after[name] != before[name]} == {
        "results/runs/a/scores.csv",
        "data/prepared/b.json",
    }
    assert all(
        began - 1 <= after[name] <= time.time() for name in ("results/runs/a/scores.csv", "data/prepared/b.json")
    )
    assert said.startswith("2 files had a time in the future, which is that of now (")
    assert said.endswith("b.json)")
    assert bring_to_now(tmp_path) == ""


def test_a_file_that_may_not_be_touched_keeps_its_time(files, tmp_path, monkeypatch):
    def forbidden(path):
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", forbidden)
    assert bring_to_now(tmp_path) == ""


def test_without_results_there_is_nothing_to_do(tmp_path):
    assert bring_to_now(Path(tmp_path / "none")) == ""
