"""Every attack answers an update that says nothing in the same way, and the others as if it were not there."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.reconstructions import NO_LABEL
from leaklab.attacks.run import attacked
from leaklab.attacks.starts import as_tensor, from_tensor, starts_table
from leaklab.metrics.silence import silent_trials
from leaklab.models.affine import MultilayerPerceptron
from leaklab.observations.base import Knowledge
from leaklab.observations.declared import declared
from leaklab.records import plugins
from leaklab.specs.attack import AttackerSpec

TRIALS, SILENT = 4, {1: "zero update", 3: "update below rounding"}
MODEL = {"name": "mlp", "settings": {"hidden": 24, "dropout": 0.0}}
ATTACKS = [
    name
    for name in plugins.available("attacks")
    if not declared("attacks", name).generator and name not in ("imprint", "pool-peel-smooth", "position-reading")
]


@pytest.fixture(scope="module")
def observation(digits, observe):
    images, labels = digits[0][:TRIALS, None], digits[1][:TRIALS, None]
    network = MultilayerPerceptron(**MODEL["settings"]).initialised((1, 8, 8), 10, 0, torch.float64).eval()
    made = observe(images, labels, [1.0, 0.0, 1.0, 1e-300], network=network)
    return replace(made, model=MODEL, silent=SILENT)


@pytest.fixture(scope="module")
def granted(knowledge):
    return Knowledge("any", {**knowledge.facts, "input_range": [0.0, 1.0], "labels": [[1], [2], [3], [4]]})


def spec(name):
    settings = {"label_rule": "bias"} if "label_rule" in plugins_settings(name) else {}
    return AttackerSpec.model_validate(
        {"attack": {"name": name, "settings": settings}, "iterations": 3, "restarts": 2, "transform": "none"}
    )


def plugins_settings(name):
    return {"label_rule"} if hasattr(plugins.load("attacks", name), "label_rule") else set()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_guess_no_match_and_no_lost_job(observation, granted, name):
    found = attacked(spec(name), observation, granted, "cpu", None)
    alone = attacked(spec(name), replace(observation, silent={}).select([0, 2]), granted, "cpu", None)
    assert found.images[[1, 3]].isnan().all()
    assert (found.labels[[1, 3]] == NO_LABEL).all()
    assert found.candidate_losses[[1, 3]].isnan().all()
    for field in ("images", "labels", "candidate_losses", "scale"):
        assert torch.equal(getattr(found, field)[[0, 2]].nan_to_num(-7), getattr(alone, field).nan_to_num(-7))
    stopped = {start.trial: start for start in found.starts if start.trial in SILENT}
    assert {trial: start.stopped for trial, start in stopped.items()} == SILENT
    assert not any(start.diverged or start.evaluations for start in stopped.values())
    assert [start.trial for start in found.starts] == sorted(start.trial for start in found.starts)
    assert silent_trials(starts_table(found.starts)) == SILENT
    assert [start.stopped for start in from_tensor(as_tensor(found.starts))] == [s.stopped for s in found.starts]


@pytest.mark.parametrize("name", ["idlg", "exact-batch"])
def test_where_all_updates_say_nothing_nothing_is_attacked(observation, granted, name):
    nothing = observation.select([1, 3])
    found = attacked(spec(name), nothing, granted, "cpu", None)
    assert found.images.shape == (2, 1, 1, 8, 8)
    assert found.images.isnan().all()
    assert [start.trial for start in found.starts] == [1, 3]
