"""What a call asks for, and the line with which it begins."""

from pathlib import Path

import pytest

from leaklab.items.items import load_items
from leaklab.planning.call import VARIABLE, Call, asked, scales_of
from leaklab.planning.outputs import outputs_of_scale, targets_of_scale
from leaklab.specs.capture import CaptureSpec

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def items():
    return load_items(ROOT / "config/items")


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        ([], {"small": None}),
        (["default"], {"small": None}),
        (["demo"], {"demo": None}),
        (["demo", "paper"], {"demo": None, "paper": None}),
        (["results/paper/report/index.html"], {"paper": None}),
        (["results/paper/comparison.csv"], {"paper": None}),
        (["figures/demo/lrp/figure2.png"], {"demo": {"lrp/figure2"}}),
        (["figures/demo/lrp/figure2.png", "results/demo/lrp/table1.csv"], {"demo": {"lrp/figure2", "lrp/table1"}}),
        (["figures/demo/lrp/figure2.png", "demo", "results/demo/lrp/table1.csv"], {"demo": None}),
        (["data/prepared/mnist.safetensors", "results/runs/train/x/run.json"], {}),
    ],
)
def test_targets_name_scales_and_items(targets, found):
    assert asked(targets, "small") == found


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        ([], ("small",)),
        (["figures/demo/lrp/figure2.png"], ("demo",)),
        (["figures/demo/lrp/figure2.png", "results/paper/lrp/table1.csv"], ("demo", "paper")),
        (["figures/demo/lrp/figure2.png", "demo"], ("demo",)),
        (["default", "paper"], ("small", "paper")),
        (["figures/demo/lrp/figure2.png", "results/runs/train/x/run.json"], ("demo", "small", "paper")),
    ],
)
def test_only_what_may_be_asked_for_is_planned(targets, found):
    assert scales_of(targets, "small") == found


def test_the_processes_of_jobs_plan_the_scales_that_the_users_process_planned(items, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert {scale for scale, _ in Call(items, "small", main=False).plan([]).runs} == {"demo", "small", "paper"}
    mine = Call(items, "small", main=True).plan(["figures/demo/lrp/figure2.png"])
    theirs = Call(items, "small", main=False).plan([])
    assert mine.runs.keys() == theirs.runs.keys()
    assert {scale for scale, _ in theirs.runs} == {"demo"}
    assert {stage: set(jobs) for stage, jobs in mine.jobs.items()} == {
        stage: set(jobs) for stage, jobs in theirs.jobs.items()
    }


def test_the_line_counts_what_is_there(items, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(ROOT / "config")
    call = Call(items, "demo", main=True)
    plan = call.plan([])
    outputs = outputs_of_scale(plan, "demo")
    assert len(outputs) == len(set(outputs))
    line = call.opening_line(plan)
    assert line.startswith(f"scale demo: {len(outputs)} jobs, {len(outputs)} of them without a result yet, at most ")
    assert line.endswith("CPU hours; all data are at hand")
    for path in outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert "all of them with a result, at most 0.0 CPU hours" in call.opening_line(plan)


def test_a_lost_table_or_figure_is_a_target(items):
    call = Call(items, "demo", main=False)
    targets = {str(path) for path in targets_of_scale(call.plan([]), "demo")}
    assert {"results/demo/lrp/table1.csv", "figures/demo/lrp/figure2.png", "results/demo/report/index.html"} <= targets


def test_a_call_ends_with_the_defenses_that_did_nothing(items, tmp_path, monkeypatch):
    """Of the items that were asked for, by the records of their captures."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(ROOT / "config")
    call = Call(items, "demo", main=True)
    plan = call.plan(["figures/demo/lrp/figure2.png"])
    assert call.closing_lines(plan) == []
    captures = [job for job in plan.jobs_of("demo", items["lrp/figure2"]) if isinstance(job.spec, CaptureSpec)]
    for job in captures:
        idle = job.spec.defense.name == "lrp"
        job.folder.mkdir(parents=True)
        (job.folder / "run.json").write_text(f'{{"facts": {{"defense_changes_update": {str(not idle).lower()}}}}}')
    assert call.closing_lines(plan) == ["defense lrp on digits does nothing: it changed no update, so it hides nothing"]
    call.asked = {"demo": {"outpost/table1"}}
    assert call.closing_lines(plan) == []
