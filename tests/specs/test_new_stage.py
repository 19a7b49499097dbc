"""A new stage is one spec class, named in ``specs/stages.py``: items ask for it, and all else is known of it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from leaklab.items.items import Item
from leaklab.planning.checks import check_run
from leaklab.planning.code import code_of
from leaklab.planning.devices import Device
from leaklab.planning.estimate import estimate
from leaklab.planning.pieces import Cut
from leaklab.planning.plan import build_plan
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs import stages
from leaklab.specs.base import Spec
from leaklab.specs.stages import RULES, SPECS, STAGES, folders_of
from leaklab.specs.training import PartitionChoice, PartitionSpec


class ToySpec(Spec):
    stage: ClassVar[str] = "toy"
    rule: ClassVar[str] = "play_toy"
    block: ClassVar[str] = "toy"
    called: ClassVar[str] = "{dataset}-toy-{defense.name}"
    rooms: ClassVar[Mapping[str, str]] = {"defense": "defenses"}

    dataset: str
    partition: PartitionChoice
    defense: Component = Component(name="none")

    def needs(self):
        return (PartitionSpec(dataset=self.dataset, partition=self.partition),)


BLOCK = {"stage": "toy", "dataset": "digits", "partition": "two-clients", "defense": ["none", "lrp"]}
FIELDS = {"paper": "lrp", "item": "table1", "title": "T", "number": 1, "kind": "table", "renderer": "table"}


@pytest.fixture
def plan_of(monkeypatch):
    """A function that plans an item with a block of toys."""
    monkeypatch.setitem(stages.BLOCKS, ToySpec.block, ToySpec)

    def plan(**changes):
        item = Item.model_validate({**FIELDS, "runs": {"main": {**BLOCK, **changes}}, "scales": {"small": {}}})
        return build_plan({item.key: item})

    return plan


def test_a_block_of_an_item_asks_for_it_and_it_is_planned_with_what_it_needs(plan_of):
    plan = plan_of()
    assert {stage: len(jobs) for stage, jobs in plan.jobs.items()} == {"toy": 2, "partition": 1}
    assert plan.datasets == {"digits"}
    for name, job in plan.jobs["toy"].items():
        assert re.fullmatch(r"digits-toy-(none|lrp)-[0-9a-f]{8}", name)
        assert job.folder == Path("results/runs/toy", name)
        assert [stage for stage, _ in job.read_runs] == ["partition"]
        assert (job.dataset, job.told) == ("digits", job.text)
        assert folders_of(job.spec) == (job.folder,)


def test_its_plug_ins_are_checked_and_are_part_of_its_code(plan_of):
    keys = {code_of(job.spec).key for job in plan_of().jobs["toy"].values()}
    assert keys == {"play_toy defenses/none", "play_toy defenses/lrp"}
    with pytest.raises(UserError, match=r"lrp/table1\.yaml: runs\.main: unknown defenses plug-in 'lpr': choose from"):
        plan_of(defense="lpr")


def test_it_costs_what_small_jobs_cost_until_somebody_measures_it(plan_of, tmp_path, monkeypatch):
    jobs = list(plan_of(defense="none").jobs["toy"].values())
    monkeypatch.chdir(tmp_path)
    assert Cut.of(jobs[0], Device("cuda", "a GPU", {"train/mlp": 0.5})).pieces == 1
    found = estimate(jobs)
    assert (found.seconds, found.memory_mb, found.gpu_seconds) == (10.0, 2500, 0.0)


def test_nothing_but_its_rows_is_checked_of_it(plan_of):
    plan = plan_of()
    (item,), (runs,) = plan.items.values(), plan.runs.values()
    for run in runs:
        check_run(item, run)
        assert (run.tried, run.attacker) == (None, "")


def test_stages_rules_and_what_they_say_are_told_apart():
    assert len(STAGES) == len(RULES) == len(SPECS)
    rules = "\n".join(path.read_text(encoding="utf-8") for path in Path("workflow/rules").glob("*.smk"))
    for kind in SPECS:
        assert Path("src/leaklab/steps", f"{kind.rule}.py").is_file()
        assert f"rule {kind.rule}:" in rules
        assert f'spec_of("{kind.stage}")' in rules
