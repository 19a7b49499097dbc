"""From public images to the law of a defense, and from the law to private images, by the steps of the rules."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.learnt import laws
from leaklab.attacks.learnt.linear import plain_law
from leaklab.captures.capture import capture
from leaklab.captures.rehearsal import best_law, helps, rehearse, unseen
from leaklab.models.generators.base import save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.denoiser import Denoiser
from leaklab.models.generators.denoising import DenoiserTraining
from leaklab.models.generators.made import public_part
from leaklab.observations.files import save_observation
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.steps import learn_law, run_attack

GENERATOR = {"dataset": "digits", "model": "class-gaussian", "steps": 1}
CAPTURE = {
    "dataset": "digits",
    "images": {"count": 2, "seed": 2},
    "model": {"name": "dlg-lenet", "n_conv": 3},
    "dtype": "float32",
    "threat_model": "honest-but-curious",
}
ATTACK = {"attack": {"name": "annealed-likelihood", "coarsest": 0.3, "finest": 0.003, "stages": 4}, "iterations": 25}
LAW_FILES = {"law": "law.safetensors", "laws": "law.json"}
OBSERVED = "observation", "facts", "generator", "description"
FOUND = {"reconstruction": "reconstruction.safetensors", "trials": "trials.csv"}


@pytest.fixture
def inputs_of(tmp_path):
    """Return a function: capture, data set and prior -> the files that a rehearsal reads, and the private images."""

    def written(spec, dataset, prior, model="class-gaussian"):
        observation, knowledge, truth = capture(spec, dataset)
        names = "observation", "facts", "generator", "description"
        inputs = {name: tmp_path / f"{name}.file" for name in names} | {"dataset": tmp_path / "digits.safetensors"}
        inputs["description"] = inputs["generator"].with_suffix(".json")
        save_observation(inputs["observation"], inputs["facts"], observation, knowledge)
        parts = ("train_images", "train_labels", "test_images", "test_labels")
        write_tensors(inputs["dataset"], {name: getattr(dataset, name) for name in parts})
        card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3]}
        write_json(inputs["dataset"].with_suffix(".json"), {**card, "substitute": None})
        save_generator(inputs["generator"], prior, model, {"width": 8} if model == "denoiser" else {})
        return inputs, truth

    return written


@pytest.fixture
def learnt(dataset, tmp_path, step, inputs_of):
    """Return a function: defense and rehearsals -> mean square errors of what is read, and the law that was kept."""

    def read(defense, **changes):
        spec = CaptureSpec.model_validate({**CAPTURE, "defense": defense, **changes})
        law = LawSpec.model_validate(
            {"capture": spec, "generator": GENERATOR, "images": 8, "draws": 3, "iterations": 12}
        )
        prior = ClassGaussian().fitted(dataset.train_images / 255, dataset.train_labels, 10)
        inputs, truth = inputs_of(spec, dataset, prior)
        told = law.told().model_dump(mode="json")
        files = step(learn_law, tmp_path / "law", told, inputs, LAW_FILES)
        attack = AttackSpec.model_validate(
            {**ATTACK, "capture": spec, "generator": GENERATOR, "transform": "learnt", "law": law}
        )
        own = {name: inputs[name] for name in OBSERVED}
        found = step(run_attack, tmp_path / "attack", attack.told().model_dump(mode="json"), own | files, FOUND)
        images = read_tensors(found["reconstruction"])["images"].double()
        errors = (images.nan_to_num(nan=0.5) - truth.images.double()).square().flatten(1).mean(1)
        return errors, read_json(tmp_path / "law/run.json")["facts"], read_json(files["laws"])

    return read


@pytest.mark.parametrize(
    ("defense", "kept", "reads"),
    [
        ("lrp", {laws.LINEAR, laws.STAYS}, 1e-3),
        ({"name": "gradient-compression", "dropped": 0.8}, {laws.ENTRIES}, 5e-3),
        ("outpost", {laws.ENTRIES}, 1e-2),
    ],
)
def test_a_defense_is_read_by_who_only_saw_what_it_makes_of_public_images(learnt, defense, kept, reads):
    errors, facts, law = learnt(defense)
    assert law["name"] in kept
    assert facts["law"] == law["name"] == min(facts["tried"], key=facts["tried"].get)
    assert float(errors.median()) < reads


def test_granted_labels_are_those_of_the_public_images_in_a_rehearsal(learnt):
    own = {"threat_model": "honest-but-curious-with-labels"}
    errors, facts, _ = learnt({"name": "gradient-compression", "dropped": 0.8}, **own)
    assert min(facts["tried"].values()) < 0.05  # a wrong label adds one
    assert float(errors.median()) < 0.05


def test_at_weights_of_a_training_that_diverged_the_law_is_that_of_no_defense(dataset):
    spec = CaptureSpec.model_validate({**CAPTURE, "defense": "lrp"})
    observation, knowledge, _ = capture(spec, dataset)
    nowhere = {name: torch.full_like(value, torch.nan) for name, value in observation.weights.items()}
    told = LawSpec.model_validate({"capture": spec, "generator": GENERATOR, "images": 2, "draws": 1}).told()
    rehearsal = rehearse(told.capture, replace(observation, weights=nowhere), knowledge, dataset)
    name, law, tried = best_law(told, rehearsal, knowledge, ClassGaussian(), "cpu", learn_law.error_of)
    assert (name, law, tried) == (laws.LINEAR, plain_law(len(observation.update)), {})


def test_noise_that_hides_everything_is_not_read_by_its_law(learnt, dataset):
    """No law may read what is not there: nothing is nearer than the mean image of its class, up to a tenth of it."""
    errors, _, law = learnt({"name": "additive-noise", "sigma": 10.0})
    assert law["name"] in laws.KINDS
    assert float(errors.median()) > 0.01


def test_the_job_of_a_law_is_told_nothing_of_the_private_images():
    spec = LawSpec.model_validate({"capture": {**CAPTURE, "seed": 3}, "generator": GENERATOR, "seed": 3})
    told = spec.told()
    assert told.capture.images.split == "train" != spec.capture.images.split
    assert told.capture.seed != spec.capture.seed
    assert told.capture.images.count == (24 + 2) * spec.capture.batch_size
    other = LawSpec.model_validate(
        {"capture": {**CAPTURE, "seed": 5, "images": {"count": 9}}, "generator": GENERATOR, "seed": 3}
    )
    assert other.told() == told


def test_a_damaged_law_is_one_line(tmp_path):
    for description in ({}, {"name": "another", "law": {}}, {"name": laws.LINEAR, "law": {"gains": [1.0]}}):
        with pytest.raises(UserError, match="the learnt law is damaged: delete its folder"):
            laws.read(description, {})


# Whether an attack takes its splits is found out on public images.

SPLIT = {"name": "annealed-map", "splits": 2, "split_coarsest": 0.3, "split_finest": 0.1, "label_rule": "known"}


def shades(seed, count, grain):
    """Return bytes of images of one shade or the other, with grain, and labels; every class has both."""
    labels, which = (stream(seed, name).integers(0, k, count) for name, k in (("class", 10), ("shade", 2)))
    images = torch.tensor([0.2, 0.8])[which][:, None, None, None] + grain * stream(seed).normal(count, 1, 8, 8)
    return (255 * images.clamp(0, 1)).round().to(torch.uint8), labels


@pytest.mark.parametrize(("taught", "helpful"), [(150, True), (0, False)])
def test_splits_are_taken_where_they_read_more_of_public_images_and_left_out_where_they_mislead(
    dataset, tmp_path, step, inputs_of, taught, helpful
):
    own, labels = shades(1, 1200, 0.03)
    private, its = shades(2, 4, 0.03)
    data = replace(dataset, train_images=own, train_labels=labels, test_images=private, test_labels=its)
    schedule = DenoiserTraining(steps=max(1, taught), batch_size=32, rate=5e-3, average=0.9)
    prior = Denoiser(width=8).trained(own / 255, labels, 10, schedule, partial(stream, 0, "generator"))
    if not taught:  # a denoiser that draws what is nowhere
        prior.network.leave.bias.data = 40 * stream(3).normal(len(prior.network.leave.bias)).float()
    noise = {"defense": {"name": "additive-noise", "sigma": 0.1}, "images": {"count": 4, "min_contrast": 0.0}}
    spec = CaptureSpec.model_validate({**CAPTURE, **noise, "threat_model": "honest-but-curious-with-labels"})
    generator = {"dataset": "digits", "model": {"name": "denoiser", "width": 8}, "steps": 150}
    asked = {"capture": spec, "attack": SPLIT, "transform": "matched-noise", "iterations": 20, "generator": generator}
    own_fields = {"attack": SPLIT, "transform": "matched-noise", "evaluations": 20, "generator": generator}
    attack = AttackSpec.model_validate(asked | {"law": {"capture": spec, "images": 0, "gate": 6, **own_fields}})
    inputs, _ = inputs_of(spec, data, prior, "denoiser")
    law = step(learn_law, tmp_path / "law", attack.law.told().model_dump(mode="json"), inputs, LAW_FILES)
    facts = read_json(tmp_path / "law/run.json")["facts"]
    assert len(facts["gains"]) == 6
    assert read_json(law["laws"]) == {"splits": helpful} == {"splits": facts["splits"]}
    observed, told = {name: inputs[name] for name in OBSERVED}, attack.told().model_dump(mode="json")
    whole = {**told, "attack": {**SPLIT, "splits": 0}}
    found = [
        read_tensors(step(run_attack, tmp_path / name, fields, files, FOUND)["reconstruction"])["images"]
        for name, fields, files in (
            ("gated", told, observed | law),
            ("split", told, observed),
            ("all", whole, observed),
        )
    ]
    assert torch.equal(found[0], found[1 if helpful else 2])
    assert not torch.equal(found[1], found[2])


def test_in_doubt_a_search_is_left_whole():
    assert helps([1.0, 1.2, 0.8])
    assert not helps([3.0, -1.0, -1.5])  # a mean of a sixth, with a standard error of 1.4
    assert not helps([-1.0, -1.2])
    assert not helps([1.0, math.nan])
    assert not helps([5.0])


def test_rehearsed_images_are_none_of_those_that_the_prior_was_made_of(dataset):
    kept = unseen(dataset, "train", 3)
    public = public_part(
        GeneratorSpec(dataset="digits", model={"name": "class-gaussian", "per_class": 3}, steps=1), dataset
    )
    taken = [dict.fromkeys(map(bytes, images.flatten(1).numpy())) for images in (kept.train_images, public[0])]
    assert not taken[0].keys() & taken[1].keys()
    assert len(kept.train_images) + len(public[0]) == len(dataset.train_images)
    assert public[1].bincount().tolist() == [3] * 10
    assert unseen(dataset, "train", 0) is dataset
    with pytest.raises(UserError, match="leaves no public image to rehearse: lower per_class"):
        unseen(dataset, "train", len(dataset.train_labels))
