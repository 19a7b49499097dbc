"""A plan that is kept is the plan that would be built, to the byte of every spec; what is wrong with it costs time."""

import sys
from pathlib import Path

import pytest

from leaklab.items.expand import PlannedRun
from leaklab.items.items import load_items
from leaklab.planning import kept_plans as module
from leaklab.planning.kept_plans import KeptPlans, known_plan
from leaklab.planning.kept_runs import KeptRuns, NotPlainError, rebuilt, written
from leaklab.planning.missing import without_missing
from leaklab.planning.plan import build_plan
from leaklab.records.config import SCALES
from leaklab.records.errors import UserError

SOME = ("lrp/table1", "lrp/table7", "lrp/figure12", "outpost/table4", "hyperfl/table2", "hyperfl/figure1")
PACKAGE = Path(module.__file__).parents[1]
LIVE = {"config/datasets.yaml", "config/texts.yaml"}
"""Catalogs, which each plan looks into itself."""


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def items():
    return {key: item for key, item in load_items().items() if key in SOME}


@pytest.fixture
def expanded(monkeypatch):
    """Return the items that are expanded from here on."""
    from leaklab.planning import plan

    asked, expand = [], plan.expand
    monkeypatch.setattr(plan, "expand", lambda item, scale: asked.append((scale, item.key)) or expand(item, scale))
    return asked


def same(one, other):
    assert one.datasets == other.datasets
    assert repr(one.runs) == repr(other.runs)  # 1 and 1.0 are equal, and no such specs are
    assert {stage: list(jobs) for stage, jobs in one.jobs.items()} == {s: list(jobs) for s, jobs in other.jobs.items()}
    for stage, jobs in one.jobs.items():
        for name, job in jobs.items():
            own = other.jobs[stage][name]
            assert (job.text, job.told, job.read_runs, job.folder) == (own.text, own.told, own.read_runs, own.folder)
            assert repr(job.spec) == repr(own.spec)
    for scale, key in one.runs:
        jobs, others = (plan.jobs_of(scale, plan.items[key]) for plan in (one, other))
        assert [job.name for job in jobs] == [job.name for job in others]


@pytest.mark.parametrize("scale", SCALES)
def test_all_runs_of_all_items_come_back(scale):
    first = known_plan(load_items(), (scale,))
    same(first, build_plan(load_items(), (scale,)))
    same(known_plan(load_items(), (scale,)), first)


def test_nothing_is_expanded_twice(items, expanded):
    first = known_plan(items)
    del expanded[:]
    same(known_plan(items), first)
    assert expanded == []


def test_some_items_are_kept_beside_others(items, expanded):
    one, *rest = items
    known_plan({one: items[one]})
    del expanded[:]
    known_plan({key: items[key] for key in rest})
    assert {key for _, key in expanded} == set(rest)
    del expanded[:]
    kept = known_plan(items)
    assert expanded == []
    same(kept, build_plan(items))


def test_a_changed_item_is_expanded_anew_and_the_one_before_is_still_known(items, expanded):
    plain = known_plan(items, ("small",))
    gone = {"small": {"outpost/table4": {"cifar10": "no data"}}}
    changed = without_missing(items, gone)
    del expanded[:]
    without = known_plan(changed, ("small",))
    assert expanded == [("small", "outpost/table4")]
    same(without, build_plan(changed, ("small",)))
    del expanded[:]
    same(known_plan(items, ("small",)), plain)
    same(known_plan(changed, ("small",)), without)
    assert expanded == []


def test_of_other_code_or_libraries_nothing_is_known(items, expanded, monkeypatch):
    known_plan(items, ("demo",))
    monkeypatch.setattr(module, "versions", lambda: ("others",))
    del expanded[:]
    known_plan(items, ("demo",))
    assert expanded


@pytest.mark.parametrize("content", [b"", b"\xff", b"k h\n{}"])
def test_a_damaged_file_is_made_anew(items, kept, content, expanded):
    first = known_plan(items, ("demo",))
    (kept / "plan-demo.json").write_bytes(content)
    same(known_plan(items, ("demo",)), first)
    del expanded[:]
    same(known_plan(items, ("demo",)), first)
    assert expanded == []


def test_items_of_ones_own_are_expanded_each_time(items, expanded):
    own = {"mine/toy": items["lrp/table1"].model_copy(update={"paper": "mine", "item": "toy"})}
    for _ in range(2):
        del expanded[:]
        known_plan(own, ("demo",))
        assert expanded == [("demo", "mine/toy")]


def test_a_data_set_that_has_gone_from_the_catalog_is_told_with_its_place(items, monkeypatch):
    some = {"lrp/table1": items["lrp/table1"]}
    known_plan(some, ("small",))
    monkeypatch.setattr("leaklab.planning.plan.load_catalog", dict)
    with pytest.raises(UserError, match=r"config/items/lrp/table1.yaml: runs\."):
        known_plan(some, ("small",))


def test_what_an_expansion_reads_is_in_the_key():
    """Files of the package are; whatever else is opened would have to be."""
    opened: list[str] = []
    watching = True

    def note(event, told):
        if watching and event == "open" and isinstance(told[0], str | Path):
            opened.append(str(told[0]))

    items = load_items()
    sys.addaudithook(note)
    build_plan(items)
    watching = False
    inside = {path for path in opened if Path(path).is_relative_to(PACKAGE)}
    others = {path for path in set(opened) - inside if not path.endswith((".py", ".pyc"))}
    assert others <= LIVE


def test_values_that_are_equal_and_not_the_same_stay_apart():
    choices = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": (1,)}, {"a": [1]}, {"a": {"r": 1}}, {"a": {"t": [], "m": {}}}]
    runs = KeptRuns([PlannedRun("b", "", None, choice) for choice in choices], [])
    assert repr(rebuilt(written(runs))) == repr(runs)


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}, b"x"])
def test_what_has_no_form_is_not_kept(value):
    with pytest.raises(NotPlainError):
        written(KeptRuns([PlannedRun("b", "", None, {"a": value})], []))


def test_where_nothing_can_be_written_the_plan_is_built(items, kept, monkeypatch):
    (kept / "a file").write_text("")
    monkeypatch.setattr(module, "KEPT", kept / "a file")
    same(known_plan(items, ("demo",)), build_plan(items, ("demo",)))
    assert KeptPlans().find(items["lrp/table1"], "demo") is None
