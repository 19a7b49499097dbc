"""An item of `mine` from its YAML to its table and page; nothing that is published notices."""

import pytest

pytestmark = pytest.mark.workflow
DEFENSE = "def defend(gradients):\n    return {name: value / 2 for name, value in gradients.items()}\n"
METRIC = '''
from leaklab.metrics.base import Metric, MetricCard


class Largest(Metric):
    """The largest difference of two pixels."""

    card = MetricCard("largest", "", "higher", "[0, 1]", None, "none", "", "[0, 1]")

    def values(self, reconstruction, truth):
        return (reconstruction - truth).abs().flatten(1).amax(1).double()


PLUGIN = Largest
'''
ITEM = """
title: Halved gradients
kind: table
renderer: table
runs:
  attack:
    dataset: digits
    images: {split: test, count: 1, seed: 0}
    model: dlg-lenet
    defense: halving
    attack: dlg
    iterations: 3
    metrics: [mse, largest]
cells: {row: {defense: defense.name}, better: higher}
table: {rows: [defense], columns: [metric], metric: [mse_median, largest_median]}
"""
TABLE, OTHER = "results/demo/mine/halves.csv", "results/demo/lrp/table4.csv"
CALL = ("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--")


def test_an_own_item_is_made_and_what_an_edit_breaks_is_said_in_one_line(checkout, tmp_path):
    own = checkout.clone(tmp_path / "own").only("lrp/table4")
    for name, text in {"defenses/halving.py": DEFENSE, "metrics/largest.py": METRIC, "items/halves.yaml": ITEM}.items():
        path = own.folder / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    own.must(*CALL, TABLE, OTHER)
    (first,) = (own.folder / "results/runs/capture").iterdir()
    assert "halving-guest-" in first.name
    table = (own.folder / TABLE).read_text()
    assert '""defense"": ""halving""' in table
    assert "largest_median" in table
    shown = own.must("leaklab", "report", "mine", "halves")
    assert shown == f"page: {(own.folder / 'results/demo/mine/index.html').resolve()}\n"
    page = (own.folder / "results/demo/mine/index.html").read_text()
    assert "Halved gradients" in page
    assert "<code>largest</code>" in page
    assert own.must("git", "status", "--porcelain") == ""
    assert "audit passed" in own.must("leaklab", "audit")
    own.edit("mine/defenses/halving.py", "return", "raise ValueError('too bad')\n    return")
    failed = own.run("snakemake", "--retries", "2", *CALL[1:], TABLE)
    said = "what a client sends, dlg-lenet on digits, halving: mine/defenses/halving.py, line 2: ValueError: too bad"
    assert (
        f"leaklab: failed: mine/halves: {said}: correct the plug-in or its settings (see logs/capture/" in failed.stdout
    )
    assert failed.stdout.count(said) == 1  # neither tried again nor told twice
    quiet = own.run("snakemake", "--cores", "2", "--workflow-profile", "none", "--quiet", "all", "--", TABLE)
    assert f"leaklab: failed: mine/halves: {said}: correct the plug-in" in quiet.stdout
    own.edit("mine/defenses/halving.py", "raise ValueError('too bad')", "import os; os.kill(os.getpid(), 9)")
    killed = own.run(*CALL, TABLE)
    assert "it was killed, as happens where memory runs out" in killed.stdout
    quiet = own.run("snakemake", "--cores", "2", "--workflow-profile", "none", "--quiet", "all", "--", TABLE)
    assert "it said nothing, as where it is killed: memory may have run out (see logs/capture/" in quiet.stdout
