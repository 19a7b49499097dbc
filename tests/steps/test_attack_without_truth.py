"""An attack's job works where nothing is but what its rule declares: no data set, no truth, no seed of the capture."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.planning.lookups import files, step
from leaklab.planning.plan import Plan
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import run_folder
from leaklab.specs.stages import observation_folder
from leaklab.steps import capture_updates

SOURCE = Path(__file__).parents[2] / "src"
# long numbers, so that none of them stands anywhere by chance
SEEDS = {"capture": 987654321, "images": 876543219, "attack": 5}
ATTACK = {
    "capture": {
        "dataset": "digits",
        "images": {"count": 2, "seed": SEEDS["images"]},
        "model": "dlg-lenet",
        "defense": "lrp",
        "seed": SEEDS["capture"],
    },
    "attack": "idlg",
    "transform": "closed-form-scale",
    "iterations": 5,
    "seed": SEEDS["attack"],
}
# refuses what Python opens or lists in a folder; safetensors opens files unseen, so the truth is deleted besides
GUARD = """
import runpy, sys
hidden = sys.argv.pop(1)

def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(hidden):
        raise PermissionError(f"the attack looked into {arguments[0]}")

sys.addaudithook(refuse)
sys.argv[0] = "leaklab.steps.run_attack"
runpy.run_module("leaklab.steps.run_attack", run_name="__main__")
"""


@pytest.fixture
def project(step, tmp_path):
    """A project with data, truth and observation, where the rule's files lie."""
    root = tmp_path / "project"
    loaded = load_digits()
    images, labels = torch.tensor(loaded.images * 15).to(torch.uint8)[:, None], torch.tensor(loaded.target)
    data = root / "data/prepared/digits.safetensors"
    parts = {"train": slice(0, 9), "test": slice(9, None)}
    tensors = {f"{part}_images": images[rows].clone() for part, rows in parts.items()}
    data.parent.mkdir(parents=True)
    write_tensors(data, tensors | {f"{part}_labels": labels[rows].clone() for part, rows in parts.items()})
    card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": None}
    write_json(data.with_suffix(".json"), card)
    spec = AttackSpec.model_validate(ATTACK)
    capture, seen = root / run_folder(spec.capture), root / observation_folder(spec.capture)
    outputs = {
        "observation": seen / "observation.safetensors",
        "facts": seen / "facts.json",
        "truth": capture / "truth.safetensors",
        "truth_facts": capture / "truth_facts.json",
    }
    step(capture_updates, capture, ATTACK["capture"], {"dataset": data, "card": data.with_suffix(".json")}, outputs)
    return root


def words(rule):
    """Return the words of the rule's command for the planned job."""
    plan, spec = Plan({}), AttackSpec.model_validate(ATTACK)
    plan.add(spec)
    job = next(job for job in plan.jobs["attack"].values())
    seen = observation_folder(spec.capture)
    there = {"observation": str(seen / "observation.safetensors"), "facts": str(seen / "facts.json")}
    read, written = (re.findall(r"^        (\w+)=", rule[section], re.MULTILINE) for section in ("input", "output"))
    assert set(there) < set(read)
    told = files(None, {name: there.get(name, []) for name in read}, {name: f"out/{name}" for name in written})
    values = {
        "{params.spec:q}": job.told,
        "{params.code}": "0" * 16,
        "{resources.device}": "cpu",
        "{threads}": "1",
    }
    command = step(*re.findall(r'"(\w+)"', rule["shell"])).replace("{params.files}", told)
    command = re.sub(r"\$\(printf [^)]*\)|2> \{log\}|^exec python \S+ \S+ \S+", "", command)
    found = []
    for word in command.split():
        for name, value in values.items():
            word = word.replace(name, value)
        found.append(word)
    assert not [word for word in found if re.search(r"\{\w+\.", word)]
    return found


def attack(folder, hidden, rule_texts):
    """Run the rule's command in a folder, with an environment that knows no other place of the project."""
    kept = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "OMP_NUM_THREADS")
    home = {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(SOURCE), "LEAKLAB_COMPILER": "off"}
    environment = {name: os.environ[name] for name in kept if name in os.environ} | home
    done = subprocess.run(
        [sys.executable, "-c", GUARD, str(hidden), *words(rule_texts["run_attack"])],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_an_attack_works_where_nothing_is_but_its_observation(project, tmp_path, rule_texts):
    spec = AttackSpec.model_validate(ATTACK)
    alone = tmp_path / "alone"
    seen = observation_folder(spec.capture)
    (alone / seen).mkdir(parents=True)
    for name in ("observation.safetensors", "facts.json"):
        (alone / seen / name).write_bytes((project / seen / name).read_bytes())
    truth = read_tensors(project / run_folder(spec.capture) / "truth.safetensors")
    beside = {
        name: (attack(project, project / "data", rule_texts) / name).read_bytes()
        for name in ("reconstruction", "trials")
    }
    shutil.rmtree(project)
    out = attack(alone, project, rule_texts)
    found = read_tensors(out / "reconstruction")
    assert found["images"].shape == truth["images"].shape
    assert torch.equal(found["labels"], truth["labels"])
    assert torch.allclose(found["scale"], truth["rates"][:, 0] / 0.01, rtol=1e-9)
    assert {name: (out / name).read_bytes() for name in beside} == beside


def test_the_guard_sees_what_is_opened(project, rule_texts):
    """The job above would not pass if it looked at what it may not."""
    seen = project / observation_folder(AttackSpec.model_validate(ATTACK).capture)
    with pytest.raises(AssertionError, match="the attack looked into"):
        attack(project, seen.relative_to(project), rule_texts)


def test_neither_the_command_nor_the_facts_name_private_samples_or_seeds(project, rule_texts):
    spec = AttackSpec.model_validate(ATTACK)
    private = read_json(project / run_folder(spec.capture) / "truth_facts.json")["trials"]
    indices = [str(trial["image"]) for trial in private]
    assert all(len(index) > 2 for index in indices), "take other seeds: a short number stands anywhere by chance"
    seeds = [str(SEEDS[name]) for name in ("capture", "images")]
    command = words(rule_texts["run_attack"])
    told = command[command.index("--spec") + 1]
    facts = (project / observation_folder(spec.capture) / "facts.json").read_text(encoding="utf-8")
    for text in (told, facts):
        assert not [number for number in (*seeds, *indices) if re.search(rf"\b{number}\b", text)]
    assert "digits" not in told
    assert '"images"' not in facts


def test_the_folder_of_an_observation_holds_nothing_private(project):
    seen = project / observation_folder(AttackSpec.model_validate(ATTACK).capture)
    assert {path.name for path in seen.iterdir()} == {"observation.safetensors", "facts.json"}
