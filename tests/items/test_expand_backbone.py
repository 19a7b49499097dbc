"""A training names the block whose training gives its backbone; what cannot be meant is refused with its place."""

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.planning.plan import build_plan
from leaklab.records.errors import UserError
from leaklab.specs.base import run_id

PLAIN = {
    "stage": "train", "dataset": "digits", "partition": "iid", "model": "resnet-small",
    "rates": [[0.1]], "rounds": 2, "local_steps": 3, "batch_size": 4, "seeds": [0],
}  # fmt: skip
ADAPTED = {**PLAIN, "model": "resnet-small-adapted", "backbone": {"block": "first"}}


def item_of(scale=None, **runs):
    cells, table = {"row": {}}, {"rows": [], "columns": [], "metric": "test_accuracy"}
    return Item(
        paper="p", item="i", title="t", number=1, kind="table", renderer="table",
        runs=runs, cells=cells, table=table, scales={"demo": scale or {}},
    )  # fmt: skip


def specs_of(item):
    return {run.block: run.spec for run in expand(item, "demo")}


def test_the_backbone_is_the_training_of_the_block():
    found = specs_of(item_of(first=PLAIN, second=ADAPTED))
    assert found["second"].backbone.train == found["first"]
    assert found["second"].backbone.weights is None
    assert "backbone" not in found["first"].model_dump()


def test_a_plan_trains_the_backbone_first():
    item = item_of(first=PLAIN, second=ADAPTED)
    plan = build_plan({item.key: item})
    found = specs_of(item)
    job = plan.job("train", run_id(found["second"]))
    assert [spec.stage for spec in job.needs] == ["partition", "train"]
    assert job.needs[1] == found["first"]


def test_the_scale_changes_the_backbone_too():
    item = item_of({"set": {"rounds": 5}}, first=PLAIN, second=ADAPTED)
    assert specs_of(item)["second"].backbone.train.rounds == 5


def test_published_weights_need_no_block():
    own = {**ADAPTED, "backbone": {"weights": "resnet20-cifar10"}}
    assert specs_of(item_of(second=own))["second"].backbone.weights == "resnet20-cifar10"


@pytest.mark.parametrize(
    ("first", "backbone", "message"),
    [
        (PLAIN, {"block": "second"}, "a training cannot be its own backbone"),
        (PLAIN, {"block": "first", "round": 3}, "has the key block alone, not block, round"),
        ({**PLAIN, "rounds": [1, 2]}, {"block": "first"}, "'first' has 2 trainings: name one with stage: train"),
        (PLAIN, {"block": "third"}, "no block 'third'"),
        (PLAIN, {"weight": "x"}, "unknown key"),
    ],
)
def test_what_cannot_be_meant_is_refused(first, backbone, message):
    with pytest.raises(UserError, match=message):
        specs_of(item_of(first=first, second={**ADAPTED, "backbone": backbone}))


def test_a_model_without_a_frozen_part_is_refused_while_planning():
    with pytest.raises(UserError, match=r"runs.second: model 'mlp' has no frozen part"):
        specs_of(item_of(first=PLAIN, second={**ADAPTED, "model": "mlp"}))
