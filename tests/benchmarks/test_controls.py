"""A defense that does nothing equals no defense, to the byte, for every attack and transform that an item uses."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from controls.chain import run_jobs

from leaklab.attacks.planned import attacked as attack
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.declared import declared
from leaklab.observations.requirements import TRANSFORMS, check_transform
from leaklab.planning.plan import Plan, build_plan
from leaklab.records.attack_spec import AttackerSpec, AttackSpec, ScoreSpec
from leaklab.records.attacker_spec import told
from leaklab.records.capture_spec import ClientChoice
from leaklab.records.errors import UserError
from leaklab.records.ids import run_folder
from leaklab.records.items import load_items
from leaklab.records.observed import observation_folder
from leaklab.records.record import Component
from leaklab.records.state_spec import TrainedState

ROOT = Path(__file__).parents[2]
EMPTY = "from leaklab.defenses.base import Defense\n\n\nclass Empty(Defense):\n    pass\n\n\nPLUGIN = Empty\n"
# attacks that no item runs at scale demo, with one whose clients and generator they take
LIKE = {"annealed-sum": "annealed-map"}

# how well a generator keeps to the classes is no matter here
UNJUDGED = {"classifier": Component(name="mlp", settings={"dropout": 0.0}), "classifier_steps": 1, "judged": 1}


@cache
def used():
    """Return the attacks on images that the items use, by attack and transform, and one undefended of each at demo."""
    plan = build_plan(load_items(ROOT / "config/items"))
    pairs, bases = {}, {}
    for (scale, _), runs in plan.runs.items():
        for run in runs:
            if isinstance(run.spec, ScoreSpec):
                own = run.spec.attack
                pairs.setdefault((own.attack.name, own.transform.name), own)
                if scale == "demo" and own.capture.defense.name == "none":
                    bases.setdefault((own.attack.name, own.transform.name), own)
                    bases.setdefault(own.attack.name, own)
    return pairs, bases


PAIRS = sorted(used()[0])


def made_for_none(transform):
    asked = declared(TRANSFORMS, transform)
    return not asked.fits or "none" in asked.fits


def small(spec, transform, defense):
    """Return an attack on one client with a defense: two iterations of one start, from untrained weights."""
    capture = spec.capture
    of_images = {"clients": capture.images.clients[:1]} if isinstance(capture.images, ClientChoice) else {
        "count": capture.batch_size, "indexes": capture.images.indexes[: capture.batch_size]}  # fmt: skip
    changes = {
        "images": capture.images.model_copy(update=of_images),
        "defense": Component(name=defense),
        "local_steps": min(capture.local_steps, 2),
    }
    if isinstance(capture.state, TrainedState):
        untrained = capture.state.train.model_copy(update={"until": 0})
        changes["state"] = capture.state.model_copy(update={"train": untrained})
    prior = spec.generator and spec.generator.model_copy(update={"steps": min(spec.generator.steps, 1), **UNJUDGED})
    own = {"capture": capture.model_copy(update=changes), "transform": transform, "generator": prior}
    return spec.model_copy(update={**own, "iterations": 2, "restarts": 1})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workspace")
    (folder / "config").symlink_to(ROOT / "config")
    return folder


@pytest.fixture
def empty(workspace, plant, monkeypatch):
    plant("empty", EMPTY)
    monkeypatch.chdir(workspace)


def captured(spec):
    """Capture what an attack is on, and return what it is told."""
    plan = Plan({})
    plan.add(spec)
    jobs = {job.folder: job for jobs in plan.jobs.values() for job in jobs.values()}
    done = {}

    def needed(job):
        for of in job.needs:
            needed(jobs[run_folder(of)])
        done[job.folder] = job

    needed(jobs[run_folder(spec)])
    run_jobs(job for job in done.values() if not isinstance(job.spec, AttackSpec))
    files = [observation_folder(spec.capture) / name for name in ("observation.safetensors", "facts.json")]
    prior = load_generator(run_folder(spec.generator) / "generator.safetensors") if spec.generator else None
    return files, prior


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(("name", "transform"), [pair for pair in PAIRS if made_for_none(pair[1])])
def test_under_an_empty_defense_an_attack_ends_with_the_bytes_of_none(name, transform):
    pairs, bases = used()
    base = bases.get((name, transform)) or bases.get(name)
    base = base or bases[LIKE[name]].model_copy(update={"attack": pairs[name, transform].attack})
    found = []
    for defense in ("none", "empty"):
        spec = small(base, pairs[name, transform].transform, defense)
        files, prior = captured(spec)
        observation, knowledge = load_observation(*files)
        made = attack(AttackerSpec.model_validate(told(spec).model_dump()), observation, knowledge, "cpu", prior)
        facts = {key: value for key, value in json.loads(files[1].read_text())["facts"].items() if key != "defense"}
        found.append((files[0].read_bytes(), facts, made))
    (update, facts, one), (same_update, same_facts, other) = found
    assert update == same_update
    assert facts == same_facts
    for field in ("images", "candidates", "scale"):
        assert torch.equal(getattr(one, field), getattr(other, field)), field


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("transform", sorted({pair[1] for pair in PAIRS if not made_for_none(pair[1])}))
def test_a_transform_with_the_law_of_a_defense_is_for_neither(transform):
    for defense in ("none", "empty"):
        with pytest.raises(UserError, match=f"does not fit defense '{defense}': it is made for"):
            check_transform(transform, defense, 1)
