"""A run's id: stable where nothing changes, another one where a number does."""

import json
import re

import pytest
from pydantic import ValidationError

from leaklab.records.record import canonical_json
from leaklab.specs.attack import AttackSpec, ScoreSpec
from leaklab.specs.base import run_folder, run_id
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.stages import STAGES
from leaklab.specs.text import TextAttackSpec, TextCaptureSpec
from leaklab.specs.training import PartitionSpec, TrainSpec

PARTITION = {"dataset": "mnist", "partition": {"name": "two-clients", "shard_size": 100, "seed": 0}}
TRAIN = {
    **PARTITION,
    "model": "mlp",
    "defense": {"name": "lrp", "class_slope": 0.1, "class_offset": 1.0},
    "rates": [[0.005, 0.01], [0.01, 0.01]],
    "rounds": 100,
    "local_steps": 25,
    "batch_size": 32,
    "weight_decay": 1.0e-4,
    "seeds": [1024, 1022],
}
GENERATOR = {"dataset": "mnist", "steps": 100}
CAPTURE = {"dataset": "mnist", "images": {"count": 5}, "model": "dlg-lenet"}
ATTACK = {"capture": CAPTURE, "attack": "dlg", "iterations": 100}
SCORE = {"attack": ATTACK, "metrics": ["mse"]}
ONE = {**CAPTURE, "images": {"count": 1}}
PROJECTION = {"dataset": "mnist", "images": {"count": 1}, "generator": GENERATOR}
GGL = {"capture": ONE, "attack": "ggl", "generator": GENERATOR, "iterations": 100}
LANDSCAPE = {"attack": GGL, "projection": PROJECTION, "metrics": ["mse"]}
TEXT_CAPTURE = {"dataset": "cola", "sentences": {"others": 20}, "model": "bert-classifier"}
TEXT_ATTACK = {"capture": TEXT_CAPTURE, "attack": "tag"}
SPECS = {
    "check": {"check": "lemma"},
    "partition": PARTITION,
    "train": TRAIN,
    "generator": GENERATOR,
    "capture": CAPTURE,
    "attack": ATTACK,
    "score": SCORE,
    "projection": PROJECTION,
    "landscape": LANDSCAPE,
    "capture-text": TEXT_CAPTURE,
    "attack-text": TEXT_ATTACK,
    "score-text": {"attack": TEXT_ATTACK, "metrics": ["token_recovery"]},
}


def spec(stage, **changes):
    return STAGES[stage].model_validate({**SPECS[stage], **changes})


def reversed_keys(value):
    if isinstance(value, dict):
        return {key: reversed_keys(inner) for key, inner in reversed(value.items())}
    return [reversed_keys(inner) for inner in value] if isinstance(value, list) else value


def written_out(value):
    """Return the spec with every default spelled out, as a user might write it."""
    return json.loads(canonical_json(value))


@pytest.mark.parametrize("stage", SPECS)
def test_the_order_of_keys_does_not_matter(stage):
    turned = STAGES[stage].model_validate(reversed_keys(SPECS[stage]))
    assert run_id(turned) == run_id(spec(stage))


@pytest.mark.parametrize("stage", SPECS)
def test_defaults_may_be_written_or_left_out(stage):
    full = written_out(spec(stage))
    assert len(json.dumps(full)) > len(json.dumps(SPECS[stage]))
    assert run_id(STAGES[stage].model_validate(full)) == run_id(spec(stage))


def test_short_and_long_forms_of_a_component_are_the_same():
    long = {"name": "mlp", "settings": {}}
    assert run_id(spec("train", model=long)) == run_id(spec("train"))
    nested = {"name": "lrp", "settings": {"class_offset": 1.0, "class_slope": 0.1}}
    assert run_id(spec("train", defense=nested)) == run_id(spec("train"))


def test_whole_numbers_may_be_written_with_or_without_a_point():
    assert run_id(spec("train", rates=[[1, 2]])) == run_id(spec("train", rates=[[1.0, 2.0]]))


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("partition", {"partition": {"name": "two-clients", "shard_size": 100, "seed": 1}}),
        ("partition", {"partition": {"name": "two-clients", "shard_size": 50, "seed": 0}}),
        ("train", {"rounds": 101}),
        ("train", {"rates": [[0.01, 0.01], [0.005, 0.01]]}),
        ("train", {"rates": [[0.005, 0.01]]}),
        ("train", {"weight_decay": 1.0000001e-4}),
        ("train", {"seeds": [1022, 1024]}),
        ("train", {"optimizer": {"name": "sgd", "momentum": 0.5}}),
        ("train", {"defense": {"name": "lrp", "class_slope": 0.2, "class_offset": 1.0}}),
        ("capture", {"images": {"count": 5, "seed": 1}}),
        ("capture", {"draws": 2}),
        ("capture", {"dtype": "float32"}),
        ("generator", {"steps": 101}),
        ("generator", {"model": {"name": "conditional-gan", "width": 16}}),
        ("attack", {"seed": 1}),
        ("attack", {"generator": GENERATOR}),
        ("attack", {"capture": {**CAPTURE, "rate": 0.02}}),
        ("score", {"metrics": ["mse", "psnr"]}),
        ("projection", {"generations": 31}),
        ("landscape", {"alpha": [0, 1, 5]}),
        ("landscape", {"attack": {**GGL, "transform": "profiled-scale"}}),
        ("score", {"attack": {**ATTACK, "restarts": 2}}),
        ("capture-text", {"sentences": {"others": 21}}),
        ("attack-text", {"labels": "inferred"}),
        ("score-text", {"metrics": ["rouge_l"]}),
    ],
)
def test_a_changed_number_is_another_run(stage, change):
    assert run_id(spec(stage, **change)) != run_id(spec(stage))


def test_every_field_of_a_training_run_counts():
    """No field may be left out of the hash, whoever adds it later."""
    hashed = json.loads(canonical_json(spec("train")))
    assert set(hashed) == set(TrainSpec.model_fields) - TrainSpec.LATER
    later = spec("train", until=5, watch=["local-loss"], backbone={"weights": "resnet20-cifar10"}, sends=[0])
    assert set(json.loads(canonical_json(later))) == set(TrainSpec.model_fields)


def test_stages_have_ids_and_folders_of_their_own():
    specs = [spec(stage) for stage in SPECS]
    assert [one.stage for one in specs] == list(SPECS)
    assert len({run_id(one).rpartition("-")[2] for one in specs}) == len(SPECS)
    folders = [run_folder(one) for one in specs]
    assert [folder.parts[:3] for folder in folders] == [("results", "runs", stage) for stage in SPECS]
    assert [folder.name for folder in folders] == [run_id(one) for one in specs]


@pytest.mark.parametrize(
    ("kind", "value", "slug"),
    [
        (PartitionSpec, PARTITION, "mnist-two-clients"),
        (TrainSpec, TRAIN, "mnist-mlp-lrp"),
        (GeneratorSpec, GENERATOR, "mnist-conditional-gan"),
        (CaptureSpec, CAPTURE, "mnist-dlg-lenet-none"),
        (AttackSpec, ATTACK, "mnist-dlg-none-on-none"),
        (ScoreSpec, SCORE, "mnist-dlg-none-on-none"),
        (TextCaptureSpec, TEXT_CAPTURE, "cola-bert-classifier-none"),
        (TextAttackSpec, TEXT_ATTACK, "cola-tag-on-none"),
    ],
)
def test_an_id_can_be_read_and_used_as_a_file_name(kind, value, slug):
    name = run_id(kind.model_validate(value))
    assert re.fullmatch(rf"{slug}-[0-9a-f]{{8}}", name)


def test_the_hash_is_the_same_on_every_machine():
    """A changed id would orphan every published run: this one may change only together with the spec's fields."""
    assert canonical_json(spec("partition")) == (
        '{"dataset":"mnist","partition":{"name":"two-clients","seed":0,"settings":{"shard_size":100},"validation":0.0}}'
    )
    assert run_id(spec("partition")) == "mnist-two-clients-053dd518"


def test_a_spec_cannot_be_changed_after_its_id_was_taken():
    with pytest.raises(ValidationError):
        spec("train").rounds = 3


def test_a_field_that_came_later_renames_no_run_until_it_is_set():
    plain, stopped = spec("train"), spec("train", until=5)
    assert "until" not in canonical_json(plain)
    assert run_id(plain) != run_id(stopped)
    assert STAGES["train"].model_validate_json(canonical_json(stopped)) == stopped
    capture = {"attack": ATTACK, "metrics": ["mse"]}
    assert "until" not in canonical_json(ScoreSpec.model_validate(capture))


def test_a_training_cannot_stop_after_its_end():
    with pytest.raises(ValidationError, match="until is 101, but the training ends after 100 rounds"):
        spec("train", until=101)
