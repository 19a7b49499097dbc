"""What HyperFL's trainings take: each is of one kind, a step's operations are counted, other ways find the same."""

from pathlib import Path

import pytest
from training_budget.__main__ import SCALE, keys_of, trainings
from training_budget.kinds import Kind, kinds
from training_budget.ways import IN_USE, times_of

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.planning.resources import cost

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def specs():
    plan = build_plan(load_items(ROOT / "config/items"), (SCALE,))
    return trainings(plan, keys_of(plan))


def test_every_training_from_scratch_is_of_one_kind(specs):
    wanted = [spec for spec in specs if spec.backbone is None and spec.until is None]
    found = kinds(specs)
    assert sorted(map(repr, (spec for kind in found for spec in kind.specs))) == sorted(map(repr, wanted))
    assert sum(kind.steps for kind in found) == sum(cost(spec).steps for spec in wanted)
    assert len(found) < len(wanted)
    assert len({kind.names() for kind in found if kind.specs[0].algorithm_plugin.name == "hyperfl"}) >= 4


def test_operations_are_those_of_the_layers(specs):
    (gray,) = [kind for kind in kinds(specs) if kind.names() == ("fashion-mnist", "local-only", "20", "50")]
    # forward, gradient of weights, and of inputs but for the first layer's
    layers = 2 * (16 * 24**2 * 25), 3 * (32 * 10**2 * 16 * 25), 3 * (800 * 128), 3 * (128 * 10)
    assert gray.flop == 2 * 50 * sum(layers)


def test_a_kind_is_trained_for_the_steps_that_the_plan_counts(specs):
    hyperfl = next(kind for kind in kinds(specs) if kind.names()[1] == "hyperfl")
    few = {"local_steps": 1, "batch_size": 2, "model": {"name": "mlp", "settings": {"dropout": 0.0, "hidden": 4}}}
    spec = hyperfl.specs[0]
    short = type(spec).model_validate({**spec.model_dump(mode="json"), **few})
    assert Kind((short,)).seconds_per_step() > 0


def test_other_ways_find_the_same_gradient(specs):
    (gray,) = [kind for kind in kinds(specs) if kind.names() == ("fashion-mnist", "local-only", "20", "50")]
    found = times_of(gray.specs[0].model, (1, 28, 28), 4)
    assert found[IN_USE][1] == 0
    assert all(error < 1e-5 for way, (_, error) in found.items() if "not exact" not in way)
    assert any(1e-5 < error < 0.1 for _, error in found.values())
