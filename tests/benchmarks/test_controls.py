"""A defense that does nothing equals no defense, to the byte, for every attack and transform that an item uses."""

import importlib
import json
from pathlib import Path

import pytest
import torch
from controls.chain import run_jobs
from controls.judging import Outcome
from controls.page import page
from controls.substitution import CONTROLS, is_privacy_item, substituted

from leaklab.attacks.run import attacked as attack
from leaklab.items.expand import expand
from leaklab.items.items import load_items
from leaklab.models.generators.base import load_generator
from leaklab.observations.base import Knowledge
from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.declared import declared
from leaklab.observations.files import load_observation
from leaklab.observations.requirements import TRANSFORMS, check_transform
from leaklab.planning.plan import Plan
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors
from leaklab.records.record import Component
from leaklab.specs.attack import AttackerSpec, AttackSpec, ScoreSpec
from leaklab.specs.base import run_folder
from leaklab.specs.capture import ClientChoice
from leaklab.specs.law import LawSpec
from leaklab.specs.stages import observation_folder
from leaklab.specs.training import TrainedState

ROOT = Path(__file__).parents[2]
EMPTY = "from leaklab.defenses.base import Defense\n\n\nclass Empty(Defense):\n    pass\n\n\nPLUGIN = Empty\n"
# attacks that ask for the sum of several clients, which neither no defense nor an empty one is
OF_A_SUM = {"annealed-sum"}

# how well a generator keeps to the classes is no matter here
UNJUDGED = {"classifier": Component(name="logistic-regression"), "classifier_steps": 1, "judged": 1}


@pytest.fixture(scope="module")
def used(whole_plan):
    """Return the attacks on images that the items use, by attack and transform, and one undefended of each at demo."""
    pairs, bases = {}, {}
    for (scale, _), runs in whole_plan.runs.items():
        for run in runs:
            if isinstance(run.spec, ScoreSpec):
                own = run.spec.attack
                pairs.setdefault((own.attack.name, own.transform.name), own)
                if scale == "demo" and own.capture.defense.name == "none":
                    bases.setdefault((own.attack.name, own.transform.name), own)
                    bases.setdefault(own.attack.name, own)
    return pairs, bases


def test_every_run_of_a_control_is_one_that_can_be_asked_for():
    """Copies are not validated; a capture of what was sent in a training cannot have another defense than that."""
    found = 0
    for item in load_items(ROOT / "config/items").values():
        runs = expand(item, "demo")
        for control in CONTROLS if is_privacy_item(runs) else ():
            for run in getattr(substituted(item, runs, control), "runs", ()):
                capture = run.spec.attack.capture
                assert type(capture).model_validate(capture.model_dump(mode="json")) == capture
                if isinstance(run.spec, ScoreSpec):
                    check_transform(run.spec.attack.transform.name, capture.defense.name, samples_seen(capture))
                    # one label is read by likelihood, those of a batch by unmixing its head
                    assert run.spec.attack.attack.settings.get("label_rule") != "likelihood" or capture.batch_size == 1
                found += 1
    assert found > 100


def fits_of(transform):
    return declared(TRANSFORMS, transform).fits


def made_for_none(transform):
    """Tell whether it is for any defense, and so for none; a law that also is that of no defense names it."""
    return not fits_of(transform)


def short(transform):
    """Return a transform that searches by itself with few iterations; others as they are."""
    if plugins.class_attribute(TRANSFORMS, transform.name, "iterations") is None:
        return transform
    return transform.model_copy(update={"settings": {**transform.settings, "iterations": 20}})


def small(spec, transform, defense):
    """Return an attack on one client with a defense: two iterations of one start, from untrained weights."""
    capture = spec.capture
    batch = min(capture.batch_size, declared(TRANSFORMS, transform.name).largest_batch or capture.batch_size)
    of_images = {"clients": capture.images.clients[:1]} if isinstance(capture.images, ClientChoice) else {
        "count": batch, "indexes": capture.images.indexes[:batch]}  # fmt: skip
    changes = {
        "images": capture.images.model_copy(update=of_images),
        "defense": Component(name=defense),
        "sent": False,
        "batch_size": batch,
        # where each step has samples of its own, an attack is told how many there are
        "local_steps": capture.local_steps if "samples" in spec.attack.settings else min(capture.local_steps, 2),
    }
    if isinstance(capture.state, TrainedState):
        untrained = capture.state.train.model_copy(update={"until": 0})
        changes["state"] = capture.state.model_copy(update={"train": untrained})
    prior = spec.generator and spec.generator.model_copy(update={"steps": min(spec.generator.steps, 1), **UNJUDGED})
    own = {"capture": capture.model_copy(update=changes), "transform": short(transform), "generator": prior}
    if declared(TRANSFORMS, transform.name).law:
        few = {"images": 4, "draws": 2, "choosing": 1, "iterations": 2}
        own["law"] = LawSpec(capture=own["capture"], generator=prior, **few)
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
    folder = spec.law and run_folder(spec.law)
    return files, prior, folder and (read_json(folder / "law.json"), read_tensors(folder / "law.safetensors"))


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("name", sorted({*plugins.available("attacks")} - OF_A_SUM))
def test_under_an_empty_defense_an_attack_ends_with_the_bytes_of_none(used, name):
    pairs, bases = used
    if name not in bases:
        pytest.skip(f"no item attacks with {name} at demo: the embedded images are too small for its networks")
    for transform in sorted(known for attacker, known in pairs if attacker == name and made_for_none(known)):
        base, own = bases.get((name, transform)) or bases[name], pairs[name, transform]
        if own.law:  # undefended runs of this attack are of several steps, and a law is of their mean
            base = bases["annealed-map"].model_copy(update={"attack": own.attack})
        (update, facts, one), (same_update, same_facts, other) = (
            under(small(base, own.transform, defense)) for defense in ("none", "empty")
        )
        assert update == same_update, transform
        assert facts == same_facts, transform
        for field in ("images", "candidates", "scale"):
            assert torch.equal(getattr(one, field), getattr(other, field)), (transform, field)


def under(spec):
    """Return the bytes of the update that an attack is on, the facts but the defense, and what it makes of them."""
    files, prior, law = captured(spec)
    observation, knowledge = load_observation(*files)
    told = AttackerSpec.model_validate(spec.told().model_dump())
    made = attack(told, observation, knowledge, "cpu", prior, law)
    facts = {key: value for key, value in json.loads(files[1].read_text())["facts"].items() if key != "defense"}
    return files[0].read_bytes(), facts, made


@pytest.mark.parametrize("name", sorted(OF_A_SUM))
def test_an_attack_on_sums_is_for_neither(used, name):
    settings = used[0][name, "none"].attack.settings
    plugin = importlib.import_module(plugins.find("attacks", name).module)
    assert plugins.load("attacks", name, settings)
    for defense in ("none", "empty"):
        with pytest.raises(UserError, match=f"{name}.*masked-sum"):
            plugin.clients_of(Knowledge("honest-but-curious", {"defense": {"name": defense, "settings": {}}}))


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("transform", [name for name in plugins.available(TRANSFORMS) if not made_for_none(name)])
def test_a_transform_with_the_law_of_a_defense_is_for_neither(transform):
    for defense in {"none", "empty"} - set(fits_of(transform)):
        with pytest.raises(UserError, match=f"does not fit defense '{defense}': it is made for"):
            check_transform(transform, defense, 1)


class TestSubstitution:
    @pytest.fixture(autouse=True)
    def _controls(self, plant):
        for control in CONTROLS:
            file = ROOT / f"benchmarks/controls/defenses/{control.replace('-', '_')}.py"
            plant(control, file.read_text(encoding="utf-8"))

    @staticmethod
    def of(key, control="no-op"):
        item = load_items(ROOT / "config/items")[key]
        return substituted(item, expand(item, "demo"), control)

    def test_a_control_is_captured_as_no_defense_is_and_meets_every_attack_that_may_be_run(self):
        trial = self.of("lrp/figure2")
        plain, mine = ([run.spec.attack for run in runs] for runs in (trial.undefended, trial.controlled))
        told_apart = {(one.attack.name, one.transform.name) for one in mine}
        named = {(name, known) for name in ("dlg", "idlg") for known in ("none", "closed-form-scale")}
        assert told_apart == named | {("annealed-map", "none"), ("annealed-likelihood", "learnt")}
        assert all(one.law.capture == one.capture for one in mine if one.law)
        assert {one.capture.defense.name for one in mine} == {"no-op"}
        captures = {
            one.capture.model_copy(update={"defense": Component(name="none")}).model_dump_json() for one in mine
        }
        assert captures == {one.capture.model_dump_json() for one in plain}
        # who makes the premise is tried on both
        assert ("annealed-map", "none") in {(one.attack.name, one.transform.name) for one in plain}

    def test_what_was_made_for_another_defense_is_left_out(self):
        transforms = {run.spec.attack.transform.name for run in self.of("lrp/figure3").controlled}
        assert transforms == {"none", "closed-form-scale", "learnt"}

    def test_a_setting_has_one_attack_of_the_paper(self):
        for key in ("lrp/figure2", "lrp/figure3", "outpost/defenses-compared"):
            trial = self.of(key)
            of_paper = [json.dumps([run.choice.get("row"), run.spec.attack.attack.name]) for run in trial.controlled
                        if run.attacker == "paper"]  # fmt: skip
            assert of_paper
            assert len(of_paper) == len(set(of_paper))

    def test_an_item_without_an_undefended_client_has_no_place_for_a_control(self):
        assert self.of("lrp/figure7") is None
        assert is_privacy_item(expand(load_items(ROOT / "config/items")["lrp/figure7"], "demo"))
        assert not is_privacy_item(expand(load_items(ROOT / "config/items")["outpost/table1"], "demo"))

    @pytest.mark.parametrize(("control", "factor"), [("no-op", 1.0), ("sign-flip", -1.0), ("scaled-copy", 0.5)])
    def test_a_control_is_what_its_name_says(self, control, factor):
        sent = plugins.load("defenses", control).update({"w": torch.tensor([2.0])}, None)
        assert sent["w"].item() == 2.0 * factor


def outcome(**changes):
    fields = {"item": "lrp/figure2", "control": "sign-flip", "setting": "attack dlg", "paper": 0.0, "knowing": 0.0,
              "by": "dlg", "known": False, "same": 0, "attacks": 0}  # fmt: skip
    return Outcome(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "hides", "wrong"),
    [
        ({"knowing": 4.0, "known": True}, "nothing", False),
        ({"knowing": -3.0}, "nothing", False),
        ({"knowing": 30.0}, "some", False),
        ({"knowing": 30.0, "known": True}, "some", True),
        ({"knowing": 50.0}, "hides", False),
        ({"knowing": 700.0, "known": True}, "hides", True),
        ({"knowing": None, "known": True}, "no premise", False),
        ({"control": "no-op", "same": 2, "attacks": 2}, "nothing", False),
        ({"control": "no-op", "same": 1, "attacks": 2}, "nothing", True),
    ],
)
def test_a_control_must_not_hide_from_who_knows_it_nor_a_no_op_change_a_byte(changes, hides, wrong):
    one = outcome(**changes)
    assert (one.hides, one.wrong) == (hides, wrong)


def test_the_page_names_what_was_not_read_and_what_must_not_be_said():
    read, missed = outcome(control="no-op", same=1, attacks=1), outcome(knowing=617.0)
    text = " ".join(page([read, missed], {"lrp/figure7": "no runs"}, (9, 9), 60.0).split())
    assert "No control is said to hide anything by an attacker who knows it." in text
    assert "* lrp/figure2, sign-flip (attack dlg): 617 % left, by dlg" in text
    assert "| sign-flip | 0 | 0 | 1 | 0 |" in text
    assert "1 of 1 attacks on the no-op ended with the bytes" in text
    assert "lrp/figure7 (no runs)" in text
    said = page([outcome(knowing=617.0, known=True)], {}, (9, 9), 60.0)
    assert "**1 settings say what they must not:** lrp/figure2, sign-flip (attack dlg)." in said
