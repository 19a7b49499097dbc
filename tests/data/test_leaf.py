"""FEMNIST from files in LEAF's format that are written here."""

import json
from pathlib import Path

import numpy as np
import pytest

from leaklab.data.catalog import load_catalog
from leaklab.data.deal import deal
from leaklab.data.fetch import fetch
from leaklab.data.labels import Labels
from leaklab.data.prepare import prepare
from leaklab.data.readers.folders import Leaf
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors
from leaklab.specs.training import PartitionSpec

ENTRY = load_catalog(Path(__file__).parents[2] / "config/datasets.yaml")["femnist"]
RANDOM = np.random.default_rng(0)


def user(*labels):
    return RANDOM.integers(0, 256, (len(labels), 784)), list(labels)


USERS = {"f10_01": user(0, 9, 10, 3), "f02_77": user(61, 1), "f05_05": user(40), "f00_00": user(2, 2, 2)}
TESTED = {"f10_01": user(7), "f02_77": user(36, 8)}


def leaf(users):
    return {
        "users": list(users),
        "num_samples": [len(labels) for _, labels in users.values()],
        "user_data": {name: {"x": (x / 255).tolist(), "y": labels} for name, (x, labels) in users.items()},
    }


def write(folder, *shards):
    folder.mkdir(parents=True, exist_ok=True)
    for k, users in enumerate(shards):
        (folder / f"all_data_{k}_niid_0_keep_0_train_9.json").write_text(json.dumps(leaf(users)))
    return folder


@pytest.fixture
def files(tmp_path):
    """Two files of training images, and one of test images."""
    names = list(USERS)
    shards = [{name: USERS[name] for name in part} for part in (names[:2], names[2:])]
    return {
        "train": write(tmp_path / "data/FEMNIST/train", *shards),
        "test": write(tmp_path / "data/FEMNIST/test", TESTED),
    }


def test_digits_only_in_the_order_of_the_files(files):
    samples = Leaf(classes=10).read(files)
    assert samples.train_labels.tolist() == [0, 9, 3, 1, 2, 2, 2]
    assert samples.test_labels.tolist() == [7, 8]
    assert samples.train_images.shape == (7, 1, 28, 28)
    assert np.array_equal(samples.train_images[2, 0], USERS["f10_01"][0][3].reshape(28, 28))
    assert np.array_equal(samples.test_images[1, 0], TESTED["f02_77"][0][1].reshape(28, 28))


def test_writers_are_numbered_by_name_and_one_without_digits_is_none(files):
    assert Leaf(classes=10).read(files).train_groups.tolist() == [2, 2, 2, 1, 0, 0, 0]


def test_all_classes(files):
    samples = Leaf().read(files)
    assert len(samples.train_labels) == 10
    assert samples.train_groups.tolist() == [3, 3, 3, 3, 1, 1, 2, 0, 0, 0]


def test_prepared_from_a_mirror_and_dealt_by_writer(files, tmp_path):
    prepared = prepare("femnist", ENTRY, fetch(ENTRY, tmp_path))
    assert (prepared.card["train_size"], prepared.card["test_size"], prepared.card["num_classes"]) == (7, 2, 10)
    assert prepared.card["substitute"] is None
    write_tensors(tmp_path / "femnist.safetensors", prepared.tensors)
    write_json(tmp_path / "femnist.json", prepared.card)
    dataset = Labels.load(tmp_path / "femnist.safetensors")
    spec = PartitionSpec.model_validate({"dataset": "femnist", "partition": {"name": "by-writer", "clients": 3}})
    clients = deal(spec, dataset.train_labels, dataset.train_groups)["clients"]
    assert sorted(map(sorted, clients)) == [[0, 1, 2], [3], [4, 5, 6]]
    assert dataset.train_groups.tolist() == [2, 2, 2, 1, 0, 0, 0]


def test_without_the_data_the_message_says_how_to_make_them(tmp_path):
    with pytest.raises(UserError, match=r"run `preprocess.sh .* then set LEAKLAB_MIRROR to .* data/FEMNIST/train"):
        fetch(ENTRY, tmp_path / "nowhere", tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content.pop("num_samples"), "KeyError: 'num_samples'"),
        (lambda content: content["users"].append("f99_99"), "ValueError"),
        (lambda content: content["num_samples"].__setitem__(0, 3), "1 images and 1 labels where num_samples says 3"),
        (lambda content: content["user_data"]["f10_01"]["x"][0].pop(), "cannot reshape"),
        (lambda content: content["user_data"]["f10_01"]["x"][0].__setitem__(0, 255), "grey values"),
        (lambda content: content["user_data"]["f10_01"]["x"][0].__setitem__(0, float("nan")), "grey values"),
    ],
)
def test_what_is_no_leaf_file_is_named(files, change, reason):
    content = leaf(TESTED)
    change(content)
    path = next(files["test"].iterdir())
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="is no FEMNIST file in LEAF's format") as caught:
        Leaf(classes=10).read(files)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_named(files):
    path = next(files["train"].iterdir())
    path.write_text(path.read_text()[:-40])
    with pytest.raises(UserError, match="is no FEMNIST file in LEAF's format"):
        Leaf(classes=10).read(files)


def test_a_part_without_digits(files):
    write(files["test"], {"f05_05": user(40)})
    with pytest.raises(UserError, match="with labels below 10: make it with LEAF's scripts"):
        Leaf(classes=10).read(files)
