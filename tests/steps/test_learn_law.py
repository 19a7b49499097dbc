"""From public images to the law of a defense, and from the law to private images, by the steps of the rules."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.learnt import laws
from leaklab.attacks.learnt.linear import plain_law
from leaklab.captures.capture import capture
from leaklab.captures.rehearsal import best_law, rehearse
from leaklab.models.generators.base import save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.files import save_observation
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_tensors, write_json, write_tensors
from leaklab.specs.attack import AttackSpec
from leaklab.specs.capture import CaptureSpec
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
FOUND = {"reconstruction": "reconstruction.safetensors", "trials": "trials.csv"}


@pytest.fixture
def learnt(dataset, tmp_path, step):
    """Return a function: defense and rehearsals -> mean square errors of what is read, and the law that was kept."""

    def read(defense, **changes):
        spec = CaptureSpec.model_validate({**CAPTURE, "defense": defense, **changes})
        law = LawSpec.model_validate(
            {"capture": spec, "generator": GENERATOR, "images": 8, "draws": 3, "iterations": 12}
        )
        observation, knowledge, truth = capture(spec, dataset)
        names = "observation", "facts", "generator", "description"
        inputs = {name: tmp_path / f"{name}.file" for name in names} | {"dataset": tmp_path / "digits.safetensors"}
        inputs["description"] = inputs["generator"].with_suffix(".json")
        save_observation(inputs["observation"], inputs["facts"], observation, knowledge)
        parts = ("train_images", "train_labels", "test_images", "test_labels")
        write_tensors(inputs["dataset"], {name: getattr(dataset, name) for name in parts})
        card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3]}
        write_json(inputs["dataset"].with_suffix(".json"), {**card, "substitute": None})
        prior = ClassGaussian().fitted(dataset.train_images / 255, dataset.train_labels, 10)
        save_generator(inputs["generator"], prior, "class-gaussian", {})
        told = law.told().model_dump(mode="json")
        files = step(learn_law, tmp_path / "law", told, inputs, LAW_FILES)
        attack = AttackSpec.model_validate(
            {**ATTACK, "capture": spec, "generator": GENERATOR, "transform": "learnt", "law": law}
        )
        own = {name: inputs[name] for name in ("observation", "facts", "generator", "description")}
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
