"""The step from an observation to a reconstruction: files, records, and going on after a kill."""

import json
import signal
import subprocess
import sys
import time
from typing import ClassVar

import pytest
import torch
from pydantic import ValidationError
from sklearn.datasets import load_digits
from torch.nn import functional as F

from leaklab.attacks import reconstructions
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.observations.files import save_observation
from leaklab.records.files import read_json, read_table, read_tensors
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec
from leaklab.steps import run_attack
from leaklab.steps.base import main

CAPTURE = {
    "dataset": "digits",
    "images": {"count": 5, "seed": 2},
    "model": "dlg-lenet",
    "defense": "lrp",
    "threat_model": "honest-but-curious",
}
SPEC = {"attack": "idlg", "transform": "closed-form-scale", "iterations": 2, "restarts": 2}
OUTPUTS = {"reconstruction": "reconstruction.safetensors", "trials": "trials.csv", "run": "run.json"}


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture
def attack(tmp_path, monkeypatch):
    monkeypatch.setattr(reconstructions, "TRIALS_TOGETHER", 2)
    loaded = load_digits()
    images, labels = torch.tensor(loaded.images * 15).to(torch.uint8)[:, None], torch.tensor(loaded.target)
    moments = torch.tensor([0.5]), torch.tensor([0.3])
    dataset = Dataset("digits", 10, images[:9], labels[:9], images[9:], labels[9:], *moments)
    inputs = {"observation": tmp_path / "observation.safetensors", "facts": tmp_path / "facts.json"}

    def captured(**changes):
        observation, knowledge, truth = capture(CaptureSpec.model_validate({**CAPTURE, **changes}), dataset)
        save_observation(*(inputs[name] for name in ("observation", "facts")), observation, knowledge)
        return truth

    def arguments(folder, **changes):
        inputs_given = (f"{name}={path}" for name, path in inputs.items())
        outputs = (f"{name}={tmp_path / folder / file}" for name, file in OUTPUTS.items())
        return ["--spec", json.dumps({**SPEC, **changes}), "--input", *inputs_given, "--output", *outputs]

    def run(folder, **changes):
        main("run_attack", run_attack.run, arguments(folder, **changes))
        return tmp_path / folder

    run.truth, run.inputs, run.arguments, run.captured = captured(), inputs, arguments, captured
    return run


@pytest.fixture
def killed(attack, monkeypatch):
    """Return a function that runs a job until it has done some chunks, and kills it in the next one."""

    def run(folder, after, start=attack, **changes):
        work, done = run_attack.attacked, []

        def until_killed(*arguments):
            if len(done) == after:
                raise Killed
            done.append(arguments)
            return work(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(run_attack, "attacked", until_killed)
            with pytest.raises(Killed):
                start(folder, **changes)

    return run


def test_the_files_hold_what_the_contract_says(attack):
    folder = attack("one")
    found = read_tensors(folder / "reconstruction.safetensors")
    assert found["images"].shape == (5, 1, 1, 8, 8)
    assert found["candidates"].shape == (5, 2, 1, 1, 8, 8)
    assert found["candidate_losses"].shape == (5, 2)
    assert torch.equal(found["labels"], attack.truth.labels)
    assert torch.allclose(found["scale"], attack.truth.rates[:, 0] / 0.01, rtol=1e-9)
    table = read_table(folder / "trials.csv")
    columns = ["trial", "start", "matching_loss", "iterations", "evaluations", "diverged", "stopped", "chosen"]
    assert list(table.columns) == columns
    assert table.groupby("trial").chosen.sum().tolist() == [1] * 5
    for row in table[table.chosen].itertuples():
        assert found["candidate_losses"][row.trial].argmin() == row.start
    facts = read_json(folder / "run.json")["facts"]
    assert facts["evaluations"] == table.evaluations.sum()
    assert facts["chunks_resumed"] == 0


def test_a_killed_job_goes_on_and_ends_with_the_same_bytes(attack, killed):
    whole = attack("whole")
    killed("resumed", after=2)
    resumed = attack("resumed")
    for name in ("reconstruction.safetensors", "trials.csv"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes()
    assert read_json(resumed / "run.json")["facts"]["chunks_resumed"] == 2
    assert not list(resumed.glob("*checkpoint*"))


ONE_CHUNK = """
import sys, time, torch
from leaklab.attacks import reconstructions
from leaklab.steps import base, run_attack
torch.set_num_threads(1)
reconstructions.TRIALS_TOGETHER = 2
work, calls = run_attack.attacked, []

def attacked(*arguments):
    calls.append(arguments)
    if len(calls) == 2:
        time.sleep(600)  # killed here, in the middle of its second chunk
    return work(*arguments)

run_attack.attacked = attacked
base.main("run_attack", run_attack.run, sys.argv[1:])
"""


def test_a_process_killed_after_its_first_chunks_ends_with_the_bytes_of_an_undisturbed_one(
    attack, tmp_path, changed_at
):
    """SIGKILL, as a scheduler sends it, once a chunk is kept: twice, so that a resumed job is killed as well."""
    whole = attack("whole")
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", ONE_CHUNK, *attack.arguments("killed")]
    kept, resumed = folder / "checkpoint.safetensors", []
    for _ in range(2):
        before = changed_at(kept)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while process.poll() is None and changed_at(kept) == before:
            time.sleep(0.005)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        resumed.append(sorted({int(name.split("/")[0]) for name in read_tensors(kept) if "/" in name}))
    assert resumed == [[0], [0, 1]]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    for name in ("reconstruction.safetensors", "trials.csv"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert read_json(folder / "run.json")["facts"]["chunks_resumed"] == 2
    assert not list(folder.glob("*checkpoint*"))


def test_a_checkpoint_of_another_job_is_not_used(attack, killed):
    killed("resumed", after=1, seed=5)
    folder = attack("resumed", seed=6)
    assert read_json(folder / "run.json")["facts"]["chunks_resumed"] == 0
    fresh = attack("fresh", seed=6) / "reconstruction.safetensors"
    assert (folder / "reconstruction.safetensors").read_bytes() == fresh.read_bytes()


def test_a_damaged_checkpoint_only_costs_time(attack, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "checkpoint.safetensors").write_bytes(b"not a checkpoint")
    assert (attack("damaged") / "trials.csv").exists()


def test_a_transform_that_does_not_fit_is_refused(attack, capsys):
    attack.captured(batch_size=5)
    with pytest.raises(SystemExit, match="batch_size <= 1"):
        attack("unfit")


def test_a_file_without_the_defense_is_attacked_by_who_needs_no_more(attack, capsys):
    attack.captured(threat_model="informed", kind="delta")
    assert (attack("informed") / "trials.csv").exists()
    with pytest.raises(SystemExit, match="matched-noise' needs 'defense', which threat model 'informed' withholds"):
        attack("knowing", transform="matched-noise")


def test_what_no_file_holds_is_refused_where_the_threat_model_withholds_it(attack, capsys):
    attack.captured(threat_model="parameter-aware")
    prior = {"dataset": "digits", "steps": 3}
    with pytest.raises(SystemExit, match="'ggl' needs 'generator', which threat model 'parameter-aware' withholds"):
        attack("searched", attack="ggl", generator=prior)


def test_a_transform_reads_the_defense_from_the_facts(attack):
    attack.captured(defense={"name": "clipping-noise", "sigma": 0.02, "bound": 3.0})
    said = attack("said", transform={"name": "matched-noise", "sigma": 0.02, "bound": 3.0})
    read = attack("read", transform="matched-noise")
    for name in ("reconstruction.safetensors", "trials.csv"):
        assert (read / name).read_bytes() == (said / name).read_bytes()


def test_the_images_are_on_the_unit_scale_whatever_the_victim_takes(attack):
    """The range of the inputs is a fact that the server prescribes; the job is told nothing else of the capture."""
    attack.captured(input_range=[-1, 1])
    shifted = read_tensors(attack("shifted", iterations=30) / "reconstruction.safetensors")["images"]
    attack.captured()
    unit = read_tensors(attack("unit", iterations=30) / "reconstruction.safetensors")["images"]
    truth = attack.truth.images
    assert (unit - truth).square().mean() < 1e-4
    assert (shifted - truth).square().mean() < 1e-4


def test_a_job_that_is_told_of_the_capture_is_refused(attack):
    with pytest.raises(ValidationError, match="capture\n  Extra inputs are not permitted"):
        attack("told", capture=CAPTURE)


class TestGenerator:
    """An attack that searches among the images of a generator."""

    PRIOR: ClassVar = {
        "dataset": "digits",
        "model": {"name": "conditional-gan", "latent_size": 5, "width": 2},
        "steps": 3,
    }
    GGL: ClassVar = {"attack": {"name": "ggl", "population": 4}, "transform": "none", "generator": PRIOR, "restarts": 1}

    @pytest.fixture
    def with_generator(self, attack, tmp_path):
        settings = {"latent_size": 5, "width": 2}

        def run(folder, shape=(1, 8, 8), classes=10, seed=0, inputs=("generator", "description"), **changes):
            generator = ConditionalGan(**settings).generator(shape, classes, stream(seed, "g")).frozen()
            save_generator(tmp_path / "generator.safetensors", generator, "conditional-gan", settings)
            files = {"generator": tmp_path / "generator.safetensors", "description": tmp_path / "generator.json"}
            attack.inputs |= {name: files[name] for name in inputs}
            return attack(folder, **self.GGL, **changes)

        return run

    def test_the_latents_of_the_images_are_kept(self, with_generator, tmp_path):
        folder = with_generator("ggl")
        found = read_tensors(folder / "reconstruction.safetensors")
        assert found["latents"].shape == (5, 1, 5)
        classes = F.one_hot(found["labels"][:, 0], 10).double()
        generator = load_generator(tmp_path / "generator.safetensors").double()
        again = generator.generate(found["latents"][:, 0], classes)
        assert torch.allclose(again, found["images"][:, 0], rtol=1e-6)
        assert read_table(folder / "trials.csv").evaluations.tolist() == [2 * 4] * 5

    def test_another_generator_is_another_job(self, with_generator, killed):
        killed("resumed", after=1, start=with_generator)
        folder = with_generator("resumed", seed=1)
        assert read_json(folder / "run.json")["facts"]["chunks_resumed"] == 0

    def test_annealed_map_goes_on_after_a_kill_and_ends_with_the_same_bytes(self, attack, tmp_path, killed):
        digits = load_digits()
        images, labels = torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)
        path = tmp_path / "generator.safetensors"
        save_generator(path, ClassGaussian().fitted(images, labels, 10), "class-gaussian", {})
        attack.inputs |= {"generator": path, "description": path.with_suffix(".json")}
        prior = {"dataset": "digits", "model": "class-gaussian", "steps": 1}
        job = {"attack": {"name": "annealed-map", "stages": 2}, "transform": "profiled-scale", "generator": prior}
        whole = attack("whole", **job)
        killed("resumed", after=1, **job)
        resumed = attack("resumed", **job)
        assert read_json(resumed / "run.json")["facts"]["chunks_resumed"] == 1
        for name in ("reconstruction.safetensors", "trials.csv"):
            assert (resumed / name).read_bytes() == (whole / name).read_bytes()

    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ({"shape": (1, 12, 12)}, "makes 1x12x12 images of 10 classes, the victim takes 1x8x8 images of 10"),
            ({"classes": 7}, "makes 1x8x8 images of 7 classes, the victim takes 1x8x8 images of 10"),
        ],
    )
    def test_a_generator_of_other_images_or_classes_is_refused(self, with_generator, sizes, message):
        with pytest.raises(SystemExit, match=message):
            with_generator("unfit", **sizes)

    def test_a_missing_or_surplus_generator_is_refused(self, attack):
        with pytest.raises(SystemExit, match="'ggl' needs a generator"):
            attack("missing", **{**self.GGL, "generator": None})
        with pytest.raises(SystemExit, match="'idlg' uses no generator"):
            attack("surplus", generator=self.PRIOR)
