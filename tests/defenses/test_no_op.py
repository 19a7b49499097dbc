"""What the server sees of a round under a defense is not what it sees without: a defense that does nothing fails.

Every plug-in that is here is asked, with all settings that items use, or its defaults where none does.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leaklab.captures.capture import capture
from leaklab.captures.observe import changes_update
from leaklab.defenses.noise import AdditiveNoise
from leaklab.defenses.outpost import Outpost
from leaklab.records import plugins
from leaklab.records.record import Component
from leaklab.specs.capture import CapturedRound, CaptureSpec
from leaklab.specs.training import TrainSpec

ROOT = Path(__file__).parents[2]
# what leaves an update as it is and is meant to: no defense, and a sum of clients whose batch stands for all of them
NEUTRAL = ("none", "masked-sum: perturbed False")
# of one that no item uses by itself, as its default is no perturbation
SETTINGS = {"scaled-rate": {"class_offset": 0.5}}
MODELS = {"hide-bn": "resnet-small"}


@pytest.fixture(scope="module")
def used(whole_plan):
    """Return the defenses with their settings in the items, by name."""
    found = {}
    for job in (job for jobs in whole_plan.jobs.values() for job in jobs.values()):
        if isinstance(job.spec, CapturedRound | TrainSpec):
            found.setdefault(job.spec.defense.name, {})[repr(job.spec.defense)] = job.spec.defense
    return {name: [own[key] for key in sorted(own)] for name, own in found.items()}


def words(defense):
    """Return a defense with its settings as a test's name."""
    settings = ", ".join(f"{key} {value}" for key, value in sorted(defense.settings.items()))
    return f"{defense.name}: {settings}" if settings else defense.name


def is_neutral(defense):
    return any(defense.name == name.split(":")[0] and name.split(": ")[-1] in words(defense) for name in NEUTRAL)


def seen(dataset, defense, like=None):
    """Return an update of two clients, by name: [T, ...]; the clients are those that ``like`` asks for."""
    asked = like or defense
    of_a_sum = asked.settings.get("clients")
    spec = CaptureSpec.model_validate(
        {
            "dataset": "digits",
            "images": {"count": 2 * (of_a_sum or 2), "seed": 1},
            "model": MODELS.get(asked.name, "dlg-lenet"),
            "rate": 0.05,
            "kind": "delta",
            # sums are those of one step
            "local_steps": 1 if of_a_sum else 2,
            "batch_size": of_a_sum or 2,
            "draws": 3,
            "defense": defense.model_dump(),
        }
    )
    return capture(spec, dataset)[0].update


def differs(dataset, defense):
    return changes_update(seen(dataset, defense), seen(dataset, Component(name="none"), like=defense))


@pytest.mark.parametrize("name", plugins.available("defenses"))
def test_every_defense_changes_what_the_server_sees(dataset, used, name):
    for defense in used.get(name, [Component(name=name, settings=SETTINGS.get(name, {}))]):
        neutral = is_neutral(defense)
        assert differs(dataset, defense) != neutral, words(defense)
        assert plugins.load("defenses", defense.name, defense.settings).neutral() == neutral, words(defense)


def test_a_hook_that_returns_its_input_is_caught(dataset, monkeypatch):
    monkeypatch.setattr(AdditiveNoise, "gradient", lambda self, gradients, context: gradients)
    monkeypatch.setattr(AdditiveNoise, "update", lambda self, update, context: update)
    assert not differs(dataset, Component(name="additive-noise"))


def test_a_result_that_is_never_written_back_is_caught(dataset, monkeypatch):
    """OUTPOST's public code in its later form: it perturbs, gives the result a name of its own, returns its input."""
    perturb, perturbed = Outpost.gradient, []

    def lost(self, gradients, context):
        perturbed.append(perturb(self, gradients, context))
        return gradients

    monkeypatch.setattr(Outpost, "gradient", lost)
    assert not differs(dataset, Component(name="outpost"))
    assert perturbed


IDLE = """
from dataclasses import dataclass

from leaklab.defenses.base import Defense


@dataclass(frozen=True)
class Idle(Defense):
    {body}


PLUGIN = Idle
"""
RETURNS_ITS_INPUT = "def gradient(self, gradients, context):\n        return dict(gradients)"


IDLES = {"idle-class": "pass", "idle-hook": RETURNS_ITS_INPUT}


def test_a_new_plug_in_that_does_nothing_fails_these_tests_by_itself(tmp_path):
    """A checkout with two files more, an empty class and a hook that returns its input, and this file as it stands.

    Its items are those of one paper, as the plan of all takes long.
    """
    (tmp_path / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    (tmp_path / "config/items").mkdir(parents=True)
    for path in (*(ROOT / "config").iterdir(), ROOT / "config/items/hyperfl"):
        if path.name != "items":
            (tmp_path / path.relative_to(ROOT)).symlink_to(path)
    package, room = tmp_path / "src/leaklab", tmp_path / "src/leaklab/defenses"
    for source, target in ((ROOT / "src/leaklab", package), (ROOT / "src/leaklab/defenses", room)):
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.name not in ("defenses", "__pycache__"):
                (target / path.name).symlink_to(path)
    for name, body in IDLES.items():
        (room / f"{name.replace('-', '_')}.py").write_text(IDLE.format(body=body), encoding="utf-8")
    here = tmp_path / "tests/defenses"
    here.mkdir(parents=True)
    helpers = (path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith("test_"))
    for path in (*helpers, Path(__file__)):
        target = tmp_path / path.relative_to(ROOT)
        target.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "idle or laplace", str(here)]
    own = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert all(f"test_every_defense_changes_what_the_server_sees[{name}]" in done.stdout for name in IDLES)
    assert "2 failed, " in done.stdout
