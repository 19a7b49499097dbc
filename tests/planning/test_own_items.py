"""Items of `mine` are planned where they are asked for, with the digests of their guests in the ids of their runs."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from leaklab.items.items import load_items, load_papers
from leaklab.planning import own_items as own
from leaklab.planning.code import code_of
from leaklab.planning.plan import build_plan
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger
from leaklab.specs.base import run_id

ROOT = Path(__file__).parents[2]
DEFENSE = "def defend(gradients):\n    return {name: value / 2 for name, value in gradients.items()}\n"
ITEM = {
    "title": "Halved gradients",
    "kind": "table",
    "renderer": "table",
    "runs": {
        "attack": {
            "dataset": "digits",
            "images": {"split": "test", "count": 1, "seed": 0},
            "model": "dlg-lenet",
            "defense": ["none", "halving"],
            "attack": "dlg",
            "iterations": 5,
            "metrics": ["mse"],
            "overrides": [{"when": {"defense": "halving"}, "set": {"draws": 2}}],
        }
    },
    "cells": {"row": {"defense": {"from": "defense.name", "as": {"halving": "one half"}}, "attack": "attack.name"}},
    "table": {"rows": ["defense"], "columns": ["metric"], "metric": "mse_median"},
    "scales": {"demo": {"blocks": {"attack": {"defense": "halving"}}}},
}


@pytest.fixture
def home(tmp_path, monkeypatch, package_at):
    (tmp_path / "config").symlink_to(ROOT / "config")
    for folder in ("defenses", "items"):
        (tmp_path / "mine" / folder).mkdir(parents=True)
    (tmp_path / "mine/defenses/halving.py").write_text(DEFENSE)
    (tmp_path / "mine/items/halves.yaml").write_text(yaml.safe_dump(ITEM))
    monkeypatch.chdir(tmp_path)
    package_at(plugins.PACKAGE_FOLDER)
    return tmp_path


def write(item):
    Path("mine/items/halves.yaml").write_text(yaml.safe_dump({**ITEM, **item}))


def jobs(scale="demo"):
    (item,) = own.own_items().values()
    return build_plan({item.key: item}, (scale,)).jobs


def refusal():
    with pytest.raises(UserError) as caught:
        own.own_items()
    return str(caught.value)


def test_the_digest_of_a_guest_is_in_every_run_that_it_takes_part_in(home, package_at):
    before = {stage: set(known) for stage, known in jobs().items()}
    assert all("halving-guest-" in name for stage in ("capture", "attack", "score") for name in before[stage])
    Path("mine/defenses/halving.py").write_text(DEFENSE.replace("/ 2", "/ 3"))
    package_at(plugins.PACKAGE_FOLDER)
    after = {stage: set(known) for stage, known in jobs().items()}
    assert not any(before[stage] & after[stage] for stage in before)


def test_the_item_of_the_page_is_planned_with_the_guest_of_the_page(home):
    page = (ROOT / "docs/own-defense.md").read_text(encoding="utf-8")
    (item,) = re.findall(r"^```yaml\n(title: Rounded.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (guest,) = re.findall(r"^```python\n(# rounding.py\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    Path("mine/defenses/rounding.py").write_text(guest)
    Path("mine/items/halves.yaml").rename("mine/items/rounding.yaml")
    Path("mine/items/rounding.yaml").write_text(item)
    assert any("-rounding-guest-" in name for name in jobs()["capture"])
    assert "figures/demo/mine/rounding.png" in page


def test_its_rows_and_conditions_call_it_as_the_item_does(home):
    (item,) = own.own_items().values()
    runs = build_plan({item.key: item}, ("paper",)).runs["paper", "mine/halves"]
    key = next(run.choice["defense"]["name"] for run in runs if run.choice["defense"]["name"] != "none")
    assert item.cells.row["defense"].names == {"halving": "one half", key: "one half"}
    assert item.cells.row["attack"].names[key] == "halving"
    assert {run.spec.attack.capture.draws for run in runs} == {1, 2}
    assert own.guests_of(item) == [("halving", key.rpartition("-")[2])]


TRANSFORM = """
from dataclasses import dataclass
from typing import ClassVar

from leaklab.observations.declared import Requirements


@dataclass(frozen=True)
class Doubling:
    requirements: ClassVar[Requirements] = Requirements(facts=("weights",), fits=("halving",))


PLUGIN = Doubling
"""


def test_who_knows_a_guest_is_made_for_it_under_its_name(home):
    (home / "mine/attacks/adaptive").mkdir(parents=True)
    (home / "mine/attacks/adaptive/doubling.py").write_text(TRANSFORM)
    block = {**ITEM["runs"]["attack"], "transform": "doubling"}
    write({"runs": {"attack": {**block, "defense": "halving"}}})
    (job,) = jobs()["attack"].values()
    assert job.spec.transform.name.startswith("doubling-guest-")
    write({"runs": {"attack": {**block, "defense": "lrp"}}, "scales": {}})
    assert "transform 'doubling' does not fit defense 'lrp': it is made for halving" in refusal()


def test_the_code_of_a_guest_counts_with_what_it_reaches_of_ours(home, package_at):
    (job,) = jobs()["capture"].values()
    assert code_of(job.spec).digest
    (plain,) = [job for job in jobs("paper")["capture"].values() if job.spec.defense.name == "none"]
    assert code_of(job.spec).digest != code_of(plain.spec).digest


def test_it_stands_apart_and_the_published_items_stay_alone(home):
    load_items.cache_clear()
    load_papers.cache_clear()
    published = load_items()
    every = own.items_of_call(True, ["--cores", "2", "results/demo/mine/halves.csv"])
    assert set(every) - set(published) == {"mine/halves"}
    assert all(every[key] is published[key] for key in published)
    assert every["mine/halves"].scales["demo"].apart
    assert own.items_of_call(False, []) == every  # a job of that call
    assert own.items_of_call(True, ["demo"]) == published
    assert own.items_of_call(False, []) == published


def test_a_broken_guest_is_in_nobodys_way_who_asks_for_something_else(home):
    Path("mine/defenses/halving.py").write_text("def")
    assert "mine/halves" not in own.items_of_call(True, ["small"])
    assert refusal().startswith("mine/defenses/halving.py: line 1: not Python") or "halving.py" in refusal()


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"runs": {"attack": {**ITEM["runs"]["attack"], "defense": "halfing"}}}, "unknown defenses plug-in 'halfing'"),
        ({"paper": "lrp"}, "paper: leave it out, or write 'mine'"),
        ({"runs": {"attack": {**ITEM["runs"]["attack"], "rate": "1e-3"}}}, "runs.attack.rate: '1e-3' is text to YAML"),
        ({"colour": "red"}, "colour: unknown key"),
        ({"scales": ["demo"]}, "scales: write what each changes"),
    ],
)
def test_what_is_wrong_names_the_file_that_was_written_by_hand(home, item, said):
    write(item)
    line = refusal()
    assert line.startswith("mine/items/halves.yaml: ")
    assert said in line
    assert "-guest-" not in line


def test_a_file_is_written_again_only_when_it_says_something_else(home):
    (item,) = own.own_items().values()
    before = own.file_of(item).stat().st_mtime_ns
    own.own_items()
    assert own.file_of(item).stat().st_mtime_ns == before


def test_the_audit_of_what_is_published_leaves_own_records_out(home):
    (job,) = jobs()["capture"].values()
    spec = job.spec.model_dump(mode="json")
    paths = {
        Path("results/small/lrp/table1.run.json"): {"scale": "small"},
        Path("results/small/mine/halves.run.json"): {"scale": "small"},
        Path("figures/demo/mine/halves.run.json"): {"scale": "demo"},
        Path(f"results/runs/capture/{run_id(job.spec)}/run.json"): spec,
    }
    ledger = Ledger(Path(), tuple(Entry(path, {"spec": spec}) for path, spec in paths.items()))
    assert [entry.path for entry in own.without_own(ledger).entries] == [next(iter(paths))]


def test_an_item_names_a_data_set_of_ones_own(home):
    (home / "mine/data").mkdir()
    arrays = {"images": np.zeros((20, 1, 16, 16), np.uint8), "labels": np.arange(20) % 2}
    np.savez(home / "mine/data/scans.npz", **arrays)
    attack = {**ITEM["runs"]["attack"], "dataset": "scans"}
    write({"runs": {"attack": attack}})
    first = {job.dataset for job in jobs()["capture"].values()}
    assert {re.fullmatch(r"scans-guest-[0-9a-f]{12}", name) is not None for name in first} == {True}
    np.savez(home / "mine/data/scans.npz", **{**arrays, "labels": np.arange(20) % 5})
    second = {job.dataset for job in jobs()["capture"].values()}
    assert len(first) == len(second) == 1
    assert first != second
    write({"runs": {"attack": {**attack, "dataset": "scams"}}})
    with pytest.raises(UserError, match="unknown dataset 'scams'"):
        jobs()


def block(page, name, language):
    """Return the example of a page of ``docs`` that begins with its path, and write it there."""
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(# {re.escape(name)}\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(found)
    return found


def test_the_data_and_the_item_of_the_page_are_planned(home):
    Path("mine/items/halves.yaml").unlink()
    exec(compile(block("own-data", "scans_of_mine.py", "python"), "scans_of_mine.py", "exec"), {})
    block("own-data", "mine/items/scans.yaml", "yaml")
    assert any("scans" in name and "lrp" in name for name in jobs()["capture"])
    assert "figures/demo/mine/scans.png" in (ROOT / "docs/own-data.md").read_text(encoding="utf-8")


def test_the_model_of_the_page_is_planned_and_computes(home):
    source = block("own-model", "mine/models/narrow.py", "python")
    page = (ROOT / "docs/own-model.md").read_text(encoding="utf-8")
    (choice,) = re.findall(r"^```yaml\n(model: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    write({"runs": {"attack": {**ITEM["runs"]["attack"], **yaml.safe_load(choice)}}})
    assert any("-narrow-guest-" in name for name in jobs()["capture"])
    made = {"__name__": "narrow"}
    exec(compile(source, "narrow.py", "exec"), made)
    network = made["PLUGIN"](width=4).initialised((1, 8, 8), 10, seed=0)
    assert network(torch.rand(3, 1, 8, 8)).shape == (3, 10)
    assert {name for name, _ in network.named_children()} == {"conv1", "sigmoid1", "flatten", "fc1"}


def test_the_paper_of_the_page_is_planned_as_any_other(home):
    Path("config").unlink()
    Path("config").mkdir()
    for path in (ROOT / "config").iterdir():
        if path.name != "items":
            Path("config", path.name).symlink_to(path)
    for name in ("config/items/dlg/paper.yaml", "config/items/dlg/digits.yaml"):
        block("own-paper", name, "yaml")
    folder = home / "config/items"  # not by its relative path, under which the house's papers are remembered
    found = load_items(folder)
    assert [paper.title for paper in load_papers(folder).values()] == ["Deep Leakage from Gradients"]
    assert list(found) == ["dlg/digits"]
    assert build_plan(found, ("demo",)).jobs["capture"]
