"""The commands of DVC, typed as its users type them, in a fresh clone and after a demo."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow
ROOT = Path(__file__).parents[2]


def test_every_item_is_a_file_of_parameters(checkout):
    params = json.loads(checkout.must("dvc", "params", "diff", "--all", "--json"))
    items = {path.relative_to(ROOT).as_posix() for path in (ROOT / "config/items").glob("*/*.yaml")}
    assert {path for path in params if path.startswith("config/")} == {
        "config/config.yaml",
        "config/datasets.yaml",
        *items,
    }


def test_status_of_a_fresh_clone_says_what_is_not_here_and_that_the_published_results_are(checkout, tmp_path):
    said = checkout.clone(tmp_path / "fresh").must("dvc", "status")
    (small,) = [part for part in said.split("results/dvc.yaml:") if part.startswith("small")]
    assert "modified" not in small
    assert "deleted" not in small
    assert "deleted:            results/demo" in said


def test_the_graph_shows_each_scale(checkout):
    said = checkout.must("dvc", "dag")
    assert all(f"| {stage} |" in said for stage in ("demo", "runs", "results/dvc.yaml:small", "results/dvc.yaml:paper"))


def test_metrics_and_plots_are_those_of_the_published_results(checkout, tmp_path):
    clone = checkout.clone(tmp_path / "clone")
    shown = clone.must("dvc", "metrics", "show", "--json")
    assert '"claims"' in shown
    clone.must("dvc", "plots", "show")
    page = (clone.folder / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert "printed and measured numbers" in page


def test_a_changed_setting_of_an_item_is_a_changed_parameter(checkout, tmp_path):
    clone = checkout.clone(tmp_path / "clone")
    assert clone.must("dvc", "params", "diff") == ""
    clone.edit("config/items/lrp/table1.yaml", "    rounds: 100", "    rounds: 7")
    line = [line.split() for line in clone.must("dvc", "params", "diff").splitlines() if "rounds" in line]
    assert line == [["config/items/lrp/table1.yaml", "runs.table.rounds", "100", "7"]]


def test_repro_makes_the_demo_and_nothing_of_it_again(demo, tmp_path):
    done = demo.copy(tmp_path / "done")
    said = done.must("dvc", "repro")
    assert "Nothing to be done" in said
    assert "audit passed" in said
    assert (done.folder / "dvc.lock").is_file()
    status = done.must("dvc", "status", "demo", "runs")
    assert "modified" not in status
    assert "deleted" not in status
    table = done.folder / "results/demo/lrp/table1.csv"
    table.unlink()
    assert "lrp/table1: table" in done.must("dvc", "repro", "demo")
    assert table.is_file()
