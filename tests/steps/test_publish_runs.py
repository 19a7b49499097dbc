"""Costs, cards and drawings are taken from the runs behind each figure, and from no other."""

import shutil
from pathlib import Path

import pytest

from leaklab.records.files import read_json, sha256, write_json
from leaklab.records.recorder import Recorder
from leaklab.report.site.publication import Published
from leaklab.steps.base import Job
from leaklab.steps.publish_runs import run

SCORES, FIGURE = "results/runs/score/a/scores.csv", "figures/demo/lrp/figure2.png"


def record(path, rule, inputs, outputs, seconds, **facts):
    content = {
        "rule": rule, "inputs": dict.fromkeys(inputs, "0"), "outputs": dict.fromkeys(outputs, "0"), "spec": {},
        "code": "", "facts": facts, "wall_seconds": seconds, "cpu_seconds": seconds / 2, "peak_memory_mb": seconds,
        "device": "cpu",
    }  # fmt: skip
    write_json(Path(path), content)


def publish(figures, deals=()):
    outputs = {"costs": Path("results/demo/costs.csv"), "cards": Path("results/demo/cards.json")}
    inputs = {"figures": [Path(figure) for figure in figures], "deals": list(deals)}
    job = Job({"scale": "demo"}, inputs, outputs, "cpu", Recorder("publish_runs"))
    run(job)
    record("results/demo/costs.run.json", "publish_runs", [], map(str, outputs.values()), 0.1)
    content = read_json(Path("results/demo/costs.run.json"))
    tables = [Path("results", *Path(figure).parts[1:]).with_suffix(".run.json") for figure in figures]
    shown = {str(path): sha256(path) for path in (*map(Path, figures), *tables)}
    write_json(Path("results/demo/costs.run.json"), {**content, "inputs": shown})
    return job


@pytest.fixture
def published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record("results/runs/attack/a/run.json", "run_attack", [], ["results/runs/attack/a/r"], 8.0, evaluations=70)
    cards = "results/runs/score/a/cards.json"
    write_json(Path(cards), {"metrics": {"mse": {"name": "mse", "domain": "[0, 1]"}}, "not_available": {}})
    record("results/runs/score/a/run.json", "score_attack", ["results/runs/attack/a/r"], [SCORES, cards], 1.0)
    record("results/demo/lrp/figure2.run.json", "make_table", [SCORES], ["results/demo/lrp/figure2.csv"], 0.5)
    record("figures/demo/lrp/figure2.run.json", "make_figure", ["results/demo/lrp/figure2.csv"], [FIGURE], 0.5)
    record("results/runs/attack/b/run.json", "run_attack", [], ["results/runs/attack/b/r"], 99.0, evaluations=9)
    drawing = Path("results/runs/partition/digits-iid-1/partition.png")
    for path in (drawing, Path("figures/demo/partition-of-an-older-deal.png"), Path(FIGURE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(path.name.encode())
    return publish([FIGURE], [drawing])


def test_an_item_costs_what_stands_behind_its_figure(published):
    found = Published.load(Path("results/demo"))
    cost = found.costs["lrp/figure2"]
    assert (cost.jobs, cost.wall_seconds, cost.cpu_seconds, cost.peak_memory_mib) == (4, 10.0, 5.0, 8.0)
    assert (cost.evaluations, cost.devices) == (70, ("cpu",))
    assert [card.metric for card in found.cards["lrp/figure2"]] == ["mse"]


def test_drawings_are_copied_and_those_of_older_deals_go(published):
    (drawn,) = Path("figures/demo").glob("partition-*")
    assert drawn.name == "partition-digits-iid-1.png"
    assert drawn.read_bytes() == b"partition.png"
    assert drawn in published.outputs.values()


OTHER = "figures/demo/lrp/figure3.png"


@pytest.fixture
def alone(published):
    """One more item, made in a checkout without the runs of the first."""
    shutil.rmtree("results/runs")
    record("results/runs/attack/c/run.json", "run_attack", [], ["results/runs/attack/c/r"], 4.0)
    record("results/demo/lrp/figure3.run.json", "make_table", [], ["results/demo/lrp/figure3.csv"], 0.5)
    record("figures/demo/lrp/figure3.run.json", "make_figure", ["results/runs/attack/c/r"], [OTHER], 1.0)
    Path(OTHER).write_bytes(b"figure 3")


def test_one_more_item_keeps_what_was_published_of_those_without_runs(published, alone):
    before = Published.load(Path("results/demo"))
    job = publish([FIGURE, OTHER])
    found = Published.load(Path("results/demo"))
    assert list(found.costs) == ["lrp/figure2", "lrp/figure3"]
    assert (found.costs["lrp/figure2"], found.cards["lrp/figure2"]) == (
        before.costs["lrp/figure2"],
        before.cards["lrp/figure2"],
    )
    assert (found.costs["lrp/figure3"].jobs, found.costs["lrp/figure3"].wall_seconds) == (2, 5.0)
    (drawn,) = Path("figures/demo").glob("partition-*")
    assert drawn in job.outputs.values(), "a drawing that nothing replaces stays, and a record names it"


def test_a_figure_that_was_drawn_anew_rests_on_the_runs_of_its_table(published, alone):
    before = Published.load(Path("results/demo"))
    Path(FIGURE).write_bytes(b"drawn anew")
    publish([FIGURE, OTHER])
    assert Published.load(Path("results/demo")).costs["lrp/figure2"] == before.costs["lrp/figure2"]


@pytest.mark.parametrize("change", ["another table", "never published"])
def test_of_a_table_whose_runs_nobody_has_nothing_is_said(published, alone, change, caplog):
    if change == "another table":
        record("results/demo/lrp/figure2.run.json", "make_table", [SCORES], ["results/demo/lrp/figure2.csv"], 0.7)
    else:
        Path("results/demo/costs.csv").unlink()
    job = publish([FIGURE, OTHER])
    assert list(Published.load(Path("results/demo")).costs) == ["lrp/figure3"]
    assert job.recorder.facts["unknown"] == ["lrp/figure2"]
    assert "no cost of lrp/figure2: neither runs are here nor the table that was published" in caplog.text
