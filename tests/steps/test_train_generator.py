"""The step that makes a generator: files, card, going on after a kill, and what is refused."""

import json
from functools import partial

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.models.generators.base import Generator, load_generator
from leaklab.records import kept
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors
from leaklab.steps import train_generator
from leaklab.steps.base import main

SPEC = {
    "dataset": "digits",
    "model": {"name": "conditional-gan", "latent_size": 8, "embedding": 4, "width": 8},
    "steps": 6,
    "batch_size": 8,
    "classifier": {"name": "resnet-small", "width": 4},
    "classifier_steps": 4,
    "judged": 3,
}
OUTPUTS = {
    "generator": "generator.safetensors",
    "description": "generator.json",
    "card": "card.json",
    "run": "run.json",
}
TRAIN, TEST = 60, 40


class Killed(BaseException):
    """Stands for a signal."""


@pytest.fixture
def step(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAKLAB_CHECKPOINT_SECONDS", "0")
    loaded = load_digits()
    images, labels = torch.tensor(loaded.images * 15).to(torch.uint8)[:, None], torch.tensor(loaded.target)
    data = tmp_path / "digits.safetensors"
    parts = {"train": slice(0, TRAIN), "test": slice(TRAIN, TRAIN + TEST)}

    def write(changed=None):
        tensors = {f"{part}_images": images[rows].clone() for part, rows in parts.items()}
        tensors |= {f"{part}_labels": labels[rows].clone() for part, rows in parts.items()}
        write_tensors(data, tensors | (changed or {}))

    write()
    card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": "few"}
    write_json(data.with_suffix(".json"), card)

    def run(folder, **changes):
        arguments = ["--spec", json.dumps({**SPEC, **changes})]
        arguments += ["--input", f"dataset={data}", f"dataset_card={data.with_suffix('.json')}"]
        arguments += ["--output", *(f"{name}={tmp_path / folder / file}" for name, file in OUTPUTS.items())]
        main("train_generator", train_generator.run, arguments)
        return tmp_path / folder

    run.write, run.parts = write, parts
    return run


def test_the_files_hold_a_generator_and_what_it_is_worth(step):
    folder = step("one")
    generator = load_generator(folder / "generator.safetensors")
    generator.require((1, 8, 8), 10)
    card = read_json(folder / "card.json")
    assert card["trained_on"] == f"{TRAIN} training images of digits"
    assert card["substitute"] == "few"
    assert len(card["recognition"]["share_by_class"]) == 10
    share = sum(card["recognition"]["share_by_class"]) / 10
    assert card["recognition"]["share"] == pytest.approx(share)
    assert 0 <= card["recognition"]["classifier_accuracy_on_test_images"] <= 1
    facts = read_json(folder / "run.json")["facts"]
    assert facts["recognition"] == card["recognition"]


def test_the_test_part_trains_nothing(step):
    one = step("one")
    step.write({"test_images": torch.zeros(TEST, 1, 8, 8, dtype=torch.uint8)})
    other = step("other")
    assert (one / "generator.safetensors").read_bytes() == (other / "generator.safetensors").read_bytes()
    shares = [read_json(folder / "card.json")["recognition"]["share_by_class"] for folder in (one, other)]
    assert shares[0] == shares[1]


def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(step, monkeypatch):
    whole = step("whole")
    keep, savings = kept.KeptTensors.keep, []

    def killed_after_the_third(self, tensors):
        keep(self, tensors)
        savings.append(int(tensors["step"]))
        if len(savings) == 3:
            raise Killed

    monkeypatch.setattr(kept.KeptTensors, "keep", killed_after_the_third)
    with pytest.raises(Killed):
        step("resumed")
    resumed = step("resumed")
    assert savings == [1, 2, 3, 4, 5, 6]
    for name in ("generator.safetensors", "generator.json", "card.json"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes()
    assert not list(resumed.glob("*checkpoint*"))


def test_what_is_kept_of_another_training_is_not_used(step, monkeypatch):
    keep = kept.KeptTensors.keep

    def killed(self, tensors):
        keep(self, tensors)
        raise Killed

    monkeypatch.setattr(kept.KeptTensors, "keep", killed)
    with pytest.raises(Killed):
        step("resumed", seed=5)
    monkeypatch.setattr(kept.KeptTensors, "keep", keep)
    resumed, fresh = step("resumed", seed=6), step("fresh", seed=6)
    assert (resumed / "generator.safetensors").read_bytes() == (fresh / "generator.safetensors").read_bytes()


class Published:
    """A plug-in whose generator comes with its weights."""

    weights = "resnet20-cifar10"

    def pretrained(self):
        return (
            train_generator.plugins.load("models/generators", "conditional-gan", {"width": 2})
            .generator((1, 8, 8), 10)
            .frozen()
        )


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setattr(train_generator.plugins, "load", partial(_load, train_generator.plugins.load))


def _load(load, room, name, settings=None):
    return Published() if name == "biggan-deep" else load(room, name, settings)


@pytest.mark.usefixtures("published")
def test_a_published_generator_is_taken_as_it_is(step):
    folder = step("published", model="biggan-deep", steps=0)
    assert read_json(folder / "card.json")["weights"].startswith("ResNet-20")
    assert "recognition" not in read_json(folder / "card.json")
    assert "paint.weight" in read_tensors(folder / "generator.safetensors")


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(("model", "steps", "message"), [
    ("biggan-deep", 3, "'biggan-deep' is published: set steps to 0"),
    ("conditional-gan", 0, "'conditional-gan' has to be trained: set steps above 0"),
    ("class-gaussian", 0, "'class-gaussian' has to be trained: set steps above 0"),
    ("class-gaussian", 2, "'class-gaussian' is fitted at once: set steps to 1"),
])  # fmt: skip
def test_steps_have_to_fit_the_kind_of_generator(step, model, steps, message):
    with pytest.raises(SystemExit, match=message):
        step("refused", model=model, steps=steps)


def test_a_fitted_generator_is_judged_like_a_trained_one(step):
    folder = step("fitted", model="class-gaussian", steps=1)
    card = read_json(folder / "card.json")
    assert card["trained_on"] == f"{TRAIN} training images of digits"
    assert len(card["recognition"]["share_by_class"]) == 10
    assert read_tensors(folder / "generator.safetensors")["factor"].shape == (10, 64, 64)
    assert {one.name for one in folder.iterdir()} == set(OUTPUTS.values())


def test_the_test_part_may_be_the_public_one(step):
    folders = {split: step(split, model="class-gaussian", steps=1, split=split) for split in ("train", "test")}
    card = read_json(folders["test"] / "card.json")
    assert card["trained_on"].endswith(" test images of digits")
    assert "classifier_accuracy_on_train_images" in card["recognition"]
    means = [read_tensors(folder / "generator.safetensors")["mean"] for folder in folders.values()]
    assert not torch.allclose(*means)


@pytest.mark.usefixtures("published")
def test_a_published_generator_of_other_images_is_refused(step, tmp_path):
    card = tmp_path / "digits.json"
    write_json(card, read_json(card) | {"shape": [3, 8, 8]})
    with pytest.raises(SystemExit, match="makes 1x8x8 images of 10 classes"):
        step("refused", model="biggan-deep", steps=0)


def test_the_generator_is_frozen(step):
    generator = load_generator(step("one") / "generator.safetensors")
    assert isinstance(generator, Generator)
    generator.require_frozen()
