"""A checkout of few items after their demo: what is edited, spoilt or stands apart is made again, and no more."""

import re
import shutil

import pytest

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.report.numbers.results import ResultTable

pytestmark = pytest.mark.workflow


def dry_run(checkout, *targets):
    return checkout.must("snakemake", "--dry-run", "--cores", "2", *targets)


def jobs_of(text, rule):
    """Return the number of jobs of a rule in a dry run."""
    found = re.search(rf"^{rule}\s+(\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def test_a_checkout_without_runs_makes_stale_tables_and_figures_again_from_what_is_packed(few, tmp_path):
    bare = few.copy(tmp_path / "packed")
    assert "results/demo/lrp/figure5.runs.zip" in bare.must("leaklab", "pack", "--scale", "demo")
    for gone in ("results/runs", "data/prepared", "results/demo/report"):
        shutil.rmtree(bare.folder / gone)
    shown = [bare.folder / name for name in ("results/demo/lrp/figure5.csv", "figures/demo/lrp/figure5.npz")]
    before = [path.read_bytes() for path in shown]
    bare.edit("config/items/lrp/figure5.yaml", "title: ", "title: Again, ")
    said = bare.must("leaklab", "remake", "--scale", "demo")
    assert said.strip().endswith("1 items made again: lrp/figure5")
    assert [path.read_bytes() for path in shown] == before
    assert "Again, " in (bare.folder / "results/demo/lrp/figure5.md").read_text()
    bare.edit("config/items/lrp/figure2.yaml", "title: ", "title: Again, ")
    said = bare.run("leaklab", "remake", "--scale", "demo")
    assert said.returncode == 1
    assert "neither here nor packed is what figures/demo/lrp/figure2.png (" in said.stdout
    assert "Again, " in (bare.folder / "results/demo/lrp/figure2.md").read_text()


def test_a_figure_that_stands_apart_is_made_by_its_name(few, tmp_path):
    apart = few.copy(tmp_path / "apart")
    # what is asserted below holds for a poor generator and a short search too
    apart.edit("config/items/lrp/figure4.yaml", "steps: 400", "steps: 40")
    apart.edit("config/items/lrp/figure4.yaml", "classifier_steps: 100", "classifier_steps: 10")
    apart.edit("config/items/lrp/figure4.yaml", "iterations: 40", "iterations: 10")
    apart.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", "figures/demo/lrp/figure4.png")
    table = ResultTable.read(apart.folder / "results/demo/lrp/figure4.csv")
    rows = [(row.row, row.attacker, row.value) for row in table.rows if row.metric == "matching_loss"]
    curves = {
        (attacker, defense): [value for row, of, value in rows if (of, row["defense"]) == (attacker, defense)]
        for attacker in ("paper", "knowing")
        for defense in ("none", "lrp")
    }
    assert {len(curve) for curve in curves.values()} == {61}
    # profiling out the scale undoes LRP's one hidden factor
    assert curves["knowing", "lrp"] == pytest.approx(curves["knowing", "none"], rel=1e-4, abs=1e-6)
    assert curves["paper", "lrp"] != pytest.approx(curves["paper", "none"], rel=0.01)
    text = apart.must("leaklab", "trace", "figures/demo/lrp/figure4.png")
    for stage in ("map_landscape", "project_image", "run_attack", "train_generator"):
        assert stage in text


def test_audit_passes_and_names_a_changed_file(few, tmp_path):
    assert "audit passed" in few.must("leaklab", "audit")
    changed = few.copy(tmp_path / "changed")
    victim = sorted((changed.folder / "results/runs/attack").rglob("reconstruction.safetensors"))[0]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    done = changed.run("leaklab", "audit")
    assert done.returncode != 0
    assert str(victim.relative_to(changed.folder)) in done.stdout


def test_only_a_changed_line_of_its_own_reruns_a_step(few, tmp_path):
    edited = few.copy(tmp_path / "edited")
    edited.edit("src/leaklab/defenses/lrp.py", '"""Learning rate', '"""In other words: learning rate')
    edited.edit("src/leaklab/attacks/search/restarts.py", "def search(", "# a comment\n\n\ndef search(")
    assert "Nothing to be done" in dry_run(edited, "demo")

    edited.edit("src/leaklab/defenses/lrp.py", "* (2 * mean)", "* (2.0 * mean)")
    text = dry_run(edited, "demo")
    plan = build_plan(load_items(few.folder / "config/items"))
    jobs = {job.name: job for item in plan.ready("demo") for job in plan.jobs_of("demo", item)}
    trained = [job for name, job in jobs.items() if name in plan.jobs["train"]]
    under_lrp = [job for job in trained if job.spec.defense.name == "lrp"]
    assert 0 < len(under_lrp) < len(trained)
    assert jobs_of(text, "train_federated") == len(under_lrp)
    assert jobs_of(text, "partition_data") == jobs_of(text, "fetch_dataset") == 0


def test_an_edited_item_is_drawn_again_over_older_results(few, tmp_path):
    edited = few.copy(tmp_path / "edited")
    edited.edit("config/items/lrp/table4.yaml", "reading: >-\n", "reading: >-\n  Look twice.\n")
    edited.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", "demo")
    assert "Look twice." in (edited.folder / "results/demo/report/lrp-table4.html").read_text()
