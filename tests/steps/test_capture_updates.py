"""The step from a dataset to the two sides of a capture."""

import json

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.captures.truth import load_truth
from leaklab.observations.files import load_observation
from leaklab.records.files import read_json, write_json, write_tensors
from leaklab.steps import capture_updates
from leaklab.steps.base import main

SPEC = {
    "dataset": "digits",
    "images": {"count": 2, "seed": 4},
    "draws": 2,
    "model": "dlg-lenet",
    "defense": "lrp",
    "local_steps": 2,
    "kind": "delta",
}
OUTPUTS = {
    "observation": "observation.safetensors",
    "facts": "observation.json",
    "truth": "truth.safetensors",
    "truth_facts": "truth.json",
    "run": "run.json",
}


@pytest.fixture
def capture(tmp_path):
    loaded = load_digits()
    images = torch.tensor(loaded.images * 15).to(torch.uint8)[:, None]
    labels = torch.tensor(loaded.target)
    parts = {
        "train_images": images[:9],
        "train_labels": labels[:9],
        "test_images": images[9:],
        "test_labels": labels[9:],
    }
    write_tensors(tmp_path / "digits.safetensors", parts)
    card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": "small"}
    write_json(tmp_path / "digits.json", card)

    def run(folder, **changes):
        inputs = [f"dataset={tmp_path / 'digits.safetensors'}", f"card={tmp_path / 'digits.json'}"]
        outputs = [f"{name}={tmp_path / folder / file}" for name, file in OUTPUTS.items()]
        arguments = ["--spec", json.dumps({**SPEC, **changes}), "--input", *inputs, "--output", *outputs]
        main("capture_updates", capture_updates.run, arguments)
        return {name: tmp_path / folder / file for name, file in OUTPUTS.items()}

    return run


def test_both_sides_are_written_and_fit_together(capture):
    files = capture("one")
    observation, knowledge = load_observation(files["observation"], files["facts"])
    truth = load_truth(files["truth"], files["truth_facts"])
    assert len(observation.trials) == len(truth.images) == len(truth.trials) == 4
    assert truth.rates.shape == (4, 2)
    assert observation.kind == "delta"
    assert knowledge.require("local_steps") == 2
    facts = read_json(files["run"])["facts"]
    assert facts["local_steps_done"] == 2
    assert facts["substitute"] == "small"


def test_same_spec_same_bytes(capture):
    first, second = capture("one"), capture("two")
    for name in ("observation", "facts", "truth", "truth_facts"):
        assert first[name].read_bytes() == second[name].read_bytes()


@pytest.mark.parametrize(("bound", "changes"), [(1e6, False), (0.01, True)])
def test_the_record_and_the_log_say_whether_the_defense_did_anything(capture, caplog, bound, changes):
    files = capture("one", defense={"name": "gradient-clipping", "bound": bound})
    assert read_json(files["run"])["facts"]["defense_changes_update"] is changes
    said = [line for line in caplog.messages if "does nothing here" in line]
    assert said == ([] if changes else [
        "defense 'gradient-clipping' does nothing here: every update is the one that is sent without it"])  # fmt: skip


def test_of_no_defense_the_record_says_nothing(capture):
    assert "defense_changes_update" not in read_json(capture("one", defense="none")["run"])["facts"]
