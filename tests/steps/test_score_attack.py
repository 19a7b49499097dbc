"""The step that sees both sides, on a small made-up attack whose scores are known."""

import urllib.error
import urllib.request

import pandas as pd
import pytest
import torch

from leaklab.captures.capture import capture
from leaklab.captures.truth import Truth, load_truth, save_truth
from leaklab.data import download
from leaklab.data.dataset import Dataset
from leaklab.metrics.linear_posterior import LinearPosterior
from leaklab.models.generators.base import save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.files import save_observation
from leaklab.records.files import read_json, read_table, read_tensors, write_json, write_table, write_tensors
from leaklab.records.recorder import Recorder
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec
from leaklab.steps.base import Job
from leaklab.steps.score_attack import run

TRIALS, STARTS = 4, 3
SPLIT = stream(0, "split").integers(0, 256, 20, 1, 12, 12).to(torch.uint8)
CLASSES = torch.arange(20) % 4
PRIVATE = [3, 3, 7, 11]
CHANNEL = {"dataset": "digits", "images": {"count": 3, "split": "test"}, "model": "lenet"}


def spec(*metrics):
    return {"attack": {"capture": CHANNEL, "attack": "dlg", "iterations": 1}, "metrics": list(metrics)}


@pytest.fixture
def job(tmp_path):
    """Start 1 is off by 0.1, start 2 by 0.01 and start 0 was not needed; the attack took start 1; trial 3 diverged."""
    images = (SPLIT[PRIVATE].double() / 255).unsqueeze(1)
    toward = torch.where(images > 0.5, -1.0, 1.0)
    candidates = torch.stack([images * 0 + 9, images + 0.1 * toward, images + 0.01 * toward], dim=1)
    losses = torch.tensor([[float("inf"), 0.1, 0.2]] * TRIALS)
    candidates[3] = float("nan")
    losses[3] = float("inf")
    truth = Truth(
        images=images,
        labels=torch.tensor([[1], [1], [2], [0]]),
        rates=torch.ones(TRIALS, 1),
        trials=tuple({"image": i, "draw": d} for i, d in zip(PRIVATE, [0, 1, 0, 0], strict=True)),
    )
    save_truth(tmp_path / "truth.safetensors", tmp_path / "truth.json", truth)
    write_tensors(tmp_path / "reconstruction.safetensors", {
        "images": candidates[:, 1],
        "labels": torch.tensor([[1], [1], [2], [5]]),
        "scale": torch.ones(TRIALS),
        "candidates": candidates,
        "candidate_losses": losses,
    })  # fmt: skip
    write_tensors(
        tmp_path / "data.safetensors", {"test_images": SPLIT, "test_labels": CLASSES, "train_images": SPLIT[:1].clone()}
    )
    write_json(tmp_path / "data.json", {"name": "digits", "substitute": "a stand-in"})
    starts = pd.DataFrame([(t, s, t == 3, s == 1) for t in range(TRIALS) for s in range(STARTS)],
                          columns=["trial", "start", "diverged", "chosen"])  # fmt: skip
    stopped = starts["diverged"].map({True: "diverged", False: "budget"})
    write_table(tmp_path / "trials.csv", starts.assign(stopped=stopped))
    inputs = {"reconstruction": "reconstruction.safetensors", "trials": "trials.csv", "truth": "truth.safetensors",
              "truth_facts": "truth.json", "dataset": "data.safetensors", "card": "data.json"}  # fmt: skip
    return Job(
        spec=spec("mse", "psnr", "ssim"),
        inputs={name: [tmp_path / file] for name, file in inputs.items()},
        outputs={"scores": tmp_path / "scores.csv", "cards": tmp_path / "scores.json"},
        device="cpu",
        recorder=Recorder(rule="score_attack"),
    )


def scored(job):
    run(job)
    return read_table(job.outputs["scores"]), read_json(job.outputs["cards"])


def values(table, selection, metric):
    rows = table[(table.selection == selection) & (table.metric == metric)]
    return rows.set_index("trial").value.to_dict()


def test_one_line_per_trial_selection_and_metric(job):
    table, _ = scored(job)
    assert list(table.columns) == ["trial", "image", "draw", "selection", "metric", "value"]
    assert len(table) == TRIALS * (6 * 3 + 1)
    assert not table.duplicated(["trial", "selection", "metric"]).any()
    keys = table.drop_duplicates("trial")
    assert (list(keys.image), list(keys.draw)) == (PRIVATE, [0, 1, 0, 0])
    assert set(table.selection) == {
        "best-by-loss",
        "oracle",
        "mean-image",
        "unrelated-image",
        "same-class-image",
        "class-mean",
    }
    assert table.value.notna().all()


def test_the_attacker_is_judged_by_its_own_choice_and_the_oracle_is_apart(job):
    table, _ = scored(job)
    for trial in range(3):
        assert values(table, "best-by-loss", "psnr")[trial] == pytest.approx(20)
        assert values(table, "oracle", "psnr")[trial] == pytest.approx(40)


def test_references_leak_nothing(job):
    table, _ = scored(job)
    mean, unrelated, alike = (values(table, s, "mse") for s in ("mean-image", "unrelated-image", "same-class-image"))
    assert all(0.06 < value < 0.12 for value in mean.values())
    assert all(0.11 < value < 0.22 for value in unrelated.values())
    assert mean[0] == mean[1]
    assert unrelated[0] == unrelated[1]
    assert all(0.11 < value < 0.22 for value in alike.values())
    assert alike[0] == alike[1]


def test_a_diverged_trial_is_kept_and_counted(job):
    table, cards = scored(job)
    gray = (SPLIT[11].double() / 255 - 0.5).square().mean()
    assert values(table, "best-by-loss", "mse")[3] == pytest.approx(float(gray))
    assert values(table, "oracle", "mse")[3] == pytest.approx(float(gray))
    assert (cards["non_finite_trials"], cards["diverged_trials"], cards["trials"]) == (1, 1, TRIALS)


def test_labels_and_cards(job):
    table, cards = scored(job)
    assert values(table, "best-by-loss", "label_correct") == {0: 1, 1: 1, 2: 1, 3: 0}
    assert cards["label_accuracy"] == 0.75
    assert set(cards["metrics"]) == {"mse", "psnr", "ssim", "label_correct"}
    assert cards["metrics"]["psnr"]["unit"] == "dB"
    assert cards["substitute"] == "a stand-in"


def silent_starts(job, reasons):
    """Say in ``trials.csv`` that the updates of some trials say nothing."""
    (path,) = job.inputs["trials"]
    stopped = [reasons.get(trial, "budget") for trial in read_table(path)["trial"]]
    write_table(path, read_table(path).assign(stopped=stopped))


def test_an_update_that_says_nothing_has_no_number_but_its_count(job):
    before = scored(job)[0]
    silent_starts(job, {1: "zero update", 2: "diverged training"})
    table, cards = scored(job)
    spoken = before[~before.trial.isin([1, 2])].reset_index(drop=True)
    assert table[table.metric != "no_information"].reset_index(drop=True).equals(spoken)
    (line,) = table[table.metric == "no_information"].to_dict("records")
    assert (line["trial"], line["image"], line["selection"], line["value"]) == (1, -1, "best-by-loss", 2.0)
    assert cards["no_information"] == {"zero update": 1, "diverged training": 1}
    assert cards["label_accuracy"] == 0.5
    assert "no_information" in cards["metrics"]


def test_of_updates_that_all_say_nothing_the_count_is_left(job):
    silent_starts(job, dict.fromkeys(range(TRIALS), "update below rounding"))
    table, cards = scored(job)
    assert table.metric.tolist() == ["no_information"]
    assert table.value.tolist() == [TRIALS]
    assert cards["label_accuracy"] is None


def test_a_metric_that_cannot_be_had_leaves_a_reason_and_no_lines(job, tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise urllib.error.URLError("no route")

    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    monkeypatch.setattr(download, "LOCAL", tmp_path / "nothing")
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    job.spec["metrics"].append("lpips-vgg")
    table, cards = scored(job)
    assert "lpips_vgg" not in set(table.metric)
    assert "cannot be downloaded" in cards["not_available"]["lpips_vgg"]


def test_scores_do_not_change_from_run_to_run(job):
    run(job)
    first = job.outputs["scores"].read_bytes()
    run(job)
    assert job.outputs["scores"].read_bytes() == first


def test_a_metric_of_the_update_is_written_once_beside_the_attack(job, tmp_path):
    """Its inputs are the capture's and the attack's generator; where it does not fit, there is a reason."""
    parts = {"train": SPLIT, "test": SPLIT}
    images = [value for part in parts.values() for value in (part, torch.arange(len(part)) % 2)]
    dataset = Dataset("digits", 2, *images, torch.zeros(1), torch.ones(1))
    private = {"dataset": "digits", "images": {"count": TRIALS}, "model": "dlg-lenet"}
    private |= {"defense": {"name": "additive-noise", "sigma": 0.05}}
    observation, knowledge, truth = capture(CaptureSpec.model_validate(private), dataset)
    made = ClassGaussian().fitted(SPLIT / 255, dataset.train_labels, 2)
    files = {name: tmp_path / f"{name}.safetensors" for name in ("observation", "generator", "truth")}
    save_generator(files["generator"], made, "class-gaussian", {})
    save_observation(files["observation"], tmp_path / "facts.json", observation, knowledge)
    save_truth(files["truth"], tmp_path / "truth.json", truth)
    inputs = {**files, "facts": tmp_path / "facts.json"}
    job.inputs.update({name: [path] for name, path in inputs.items()})
    generator = {"dataset": "digits", "model": "class-gaussian", "steps": 1}
    job.spec["attack"] |= {"capture": private, "attack": "annealed-map", "generator": generator}
    job.spec["metrics"] = ["mse", "linear-posterior"]
    table, cards = scored(job)
    expected = LinearPosterior().values(observation, knowledge, made, truth).flatten().tolist()
    assert values(table, "best-by-loss", "linear_posterior") == pytest.approx(dict(enumerate(expected)), rel=1e-4)
    assert set(table[table.metric == "linear_posterior"].selection) == {"best-by-loss"}
    assert cards["metrics"]["linear_posterior"]["domain"] == "[0, 1]"
    job.spec["attack"]["capture"] = private | {"defense": "lrp"}
    table, cards = scored(job)
    assert "linear_posterior" not in set(table.metric)
    assert "additive-noise and clipping-noise" in cards["not_available"]["linear_posterior"]


def test_queries_of_a_malicious_server_are_scored_without_a_generator(job, tmp_path):
    one = torch.ones(1)
    dataset = Dataset("digits", 4, SPLIT, CLASSES, SPLIT, CLASSES, 0 * one, one)
    fished = {"dataset": "digits", "images": {"count": 4, "indexes": [2, 3, 4, 8]}, "batch_size": 4}
    server = {"name": "fishing", "target": 0, "strategy": "feature", "most_queries": 5}
    fished |= {"model": "dlg-lenet", "threat_model": "malicious-server", "server": server}
    observation, knowledge, truth = capture(CaptureSpec.model_validate(fished), dataset)
    files = {name: tmp_path / f"{name}.safetensors" for name in ("observation", "truth", "reconstruction")}
    save_observation(files["observation"], tmp_path / "facts.json", observation, knowledge)
    save_truth(files["truth"], tmp_path / "truth.json", truth)
    guess = truth.images[:, None].clone()
    write_tensors(files["reconstruction"], {
        "images": guess[:, 0].clone(),
        "labels": truth.labels,
        "scale": torch.ones(1),
        "candidates": guess,
        "candidate_losses": torch.zeros(1, 1),
    })  # fmt: skip
    job.inputs.update({name: [path] for name, path in {**files, "facts": tmp_path / "facts.json"}.items()})
    job.spec["attack"]["capture"] = fished
    job.spec["metrics"] = ["mse", "queries"]
    table = scored(job)[0]
    assert list(values(table, "best-by-loss", "queries").values()) == [knowledge.facts["queries"]]
    assert list(values(table, "best-by-loss", "mse").values()) == [0]
    assert set(table.image) == {truth.trials[0]["image"]} <= {4, 8}
    job.spec["attack"]["capture"] = {**fished, "server": None}
    assert scored(job)[1]["not_available"]["queries"] == "the server sends honest weights, once"


def test_certified_is_what_the_attack_itself_proved_and_no_value_elsewhere(job):
    (path,) = job.inputs["reconstruction"]
    found = read_tensors(path)
    losses = torch.zeros_like(found["candidate_losses"])
    write_tensors(path, {**found, "candidate_losses": losses})
    job.spec["metrics"] = ["certified", "false-certificate"]
    assert set(scored(job)[0].metric) == {"label_correct"}  # a loss of 0 is no proof
    write_tensors(path, {**found, "certified": torch.tensor([True, *[False] * (len(losses) - 1)])})
    job.spec["metrics"] = ["certified"]
    table = scored(job)[0]
    table = table[table.metric == "certified"]
    assert set(table.selection) == {"best-by-loss"}
    assert dict(zip(table.trial, table.value, strict=True)) == {0: 1.0, **dict.fromkeys(range(1, len(losses)), 0.0)}


def test_an_attack_without_any_guess_of_a_label_has_no_line_for_it_and_no_accuracy(job):
    (path,) = job.inputs["reconstruction"]
    found = read_tensors(path)
    write_tensors(path, {**found, "labels": torch.full_like(found["labels"], -1)})
    table, cards = scored(job)
    assert set(table.metric) == {"mse", "psnr", "ssim"}
    assert cards["label_accuracy"] is None
    write_tensors(path, {**found, "labels": torch.tensor([[1], [-1], [0], [-1]])})
    table, cards = scored(job)
    assert values(table, "best-by-loss", "label_correct") == {0: 1, 2: 0}
    assert cards["label_accuracy"] == 0.5


def test_a_certificate_is_held_against_the_images(job):
    (path,) = job.inputs["reconstruction"]
    found = read_tensors(path)
    private = load_truth(job.input("truth"), job.input("truth_facts")).images
    images = private.clone().to(found["images"])
    images[1] = 1 - images[1]  # a planted false certificate
    certified = torch.ones(len(images), dtype=torch.bool)
    certified[2] = False
    write_tensors(path, {**found, "images": images, "certified": certified})
    job.spec["metrics"] = ["certified", "false-certificate"]
    table = scored(job)[0]
    by_metric = {name: own.value.tolist() for name, own in table.groupby("metric")}
    others = len(images) - 3
    assert by_metric["certified"] == [1.0, 1.0, 0.0, *[1.0] * others]
    assert by_metric["false_certificate"] == [0.0, 1.0, 0.0, *[0.0] * others]


def test_the_loss_of_the_search_is_a_metric_without_a_truth_reference_or_oracle(job):
    job.spec["metrics"] = ["mse", "reconstruction-loss"]
    table, cards = scored(job)
    found = table[table.metric == "reconstruction_loss"]
    assert set(found.selection) == {"best-by-loss"}
    assert found.value.tolist() == pytest.approx([0.1, 0.1, 0.1, 1e12])
    assert set(table[table.metric == "mse"].selection) > {"best-by-loss", "oracle"}
    assert cards["metrics"]["reconstruction_loss"]["better"] == "higher"
