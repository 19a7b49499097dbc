"""What a call ends with: the answer of the pages, files that are there, and what was not run with its reason."""

from pathlib import Path

import pytest

from leaklab.items.items import load_items
from leaklab.planning.missing import without_missing
from leaklab.planning.plan import build_plan
from leaklab.report.site.closing import answers, ending, not_run

ROOT = Path(__file__).parents[3]
FEW = ("lrp/table1", "lrp/table3", "lrp/theorem1")


@pytest.fixture
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def few():
    items = load_items(ROOT / "config/items")
    return {key: items[key] for key in FEW}


def test_the_answer_is_that_of_the_published_page(here):
    published = (ROOT / "results/small/README.md").read_text(encoding="utf-8")
    lines = list(answers("small"))
    assert [line.partition(" ")[0] for line in lines] == ["lrp", "outpost", "hyperfl"]
    for line in lines:
        assert line.partition(" at scale small: ")[2] in published


def test_there_is_no_answer_without_its_numbers(tmp_path, monkeypatch):
    (tmp_path / "config/papers").mkdir(parents=True)
    (tmp_path / "config/papers/headlines.yaml").write_bytes((ROOT / "config/papers/headlines.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert list(answers("small")) == []


def test_what_an_asked_item_left_is_named(here, few):
    lines = list(ending(build_plan(few, ("small",)), {"small": {"lrp/table1", "lrp/lost"}}))
    made = "results/small/lrp/table1.csv and figures/small/lrp/table1.png"
    assert lines == [f"lrp/table1 at scale small: {made}"]


def test_what_data_kept_from_running_is_said_once_for_all_items(few):
    reason = "cannot be downloaded: put it there by hand"
    missing = {"small": {"lrp/table1": {"mnist": reason}, "lrp/table3": {"mnist": reason}}}
    plan = build_plan(without_missing(few, missing), ("small",))
    (line,) = not_run(plan, "small")
    assert line == f"not run for want of mnist: {reason} (lrp/table1, lrp/table3)"
    assert list(not_run(plan, "small", {"lrp/theorem1"})) == []


def test_items_that_stand_apart_or_are_not_set_up_are_named(few):
    apart = few["lrp/table1"].scales["demo"].model_copy(update={"apart": True})
    away = few["lrp/table3"].model_copy(update={"scales": {}})
    items = {**few, "lrp/table1": few["lrp/table1"].model_copy(update={"scales": {"demo": apart}}), "lrp/table3": away}
    lines = list(not_run(build_plan(items, ("demo",)), "demo"))
    assert "not run: lrp/table1: made only when asked for by name" in lines
    assert "not run: lrp/table3: not set up for scale demo, `leaklab items --why` says why" in lines
