"""The real data sets, as the mirror holds them."""

import os
from functools import cache
from pathlib import Path

import pytest

from leaklab.data.catalog import load_catalog
from leaklab.data.dataset import channel_moments
from leaklab.data.fetch import fetch
from leaklab.data.prepare import prepare
from leaklab.records.errors import UserError

MIRROR = os.environ.get("LEAKLAB_MIRROR")
pytestmark = [
    pytest.mark.mirror,
    pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: the mirror's data sets are not tested"),
]
CATALOG = load_catalog(Path(__file__).parents[2] / "config/datasets.yaml")


@cache
def prepared(name):
    return prepare(name, CATALOG[name], fetch(CATALOG[name], Path(MIRROR)))


@pytest.mark.parametrize(
    ("name", "train", "test", "classes"),
    [
        ("mnist", 60_000, 10_000, 10),
        ("fashion-mnist", 60_000, 10_000, 10),
        ("cifar10", 50_000, 10_000, 10),
        ("cifar100", 2_000, 10_000, 100),
        ("emnist-balanced", 9_120, 304, 47),
        ("emnist-byclass", 12_875, 3_254, 62),
        ("lfw", 620, 160, 20),
    ],
)
def test_sizes(name, train, test, classes):
    card, tensors = prepared(name).card, prepared(name).tensors
    assert (card["train_size"], card["test_size"], card["num_classes"]) == (train, test, classes)
    assert len(card["class_names"]) == classes
    assert tensors["train_labels"].unique().tolist() == list(range(classes))
    assert all(file["source"] == "mirror" for file in card["files"])


def test_mnist_has_its_well_known_moments():
    card = prepared("mnist").card
    assert card["mean"] == pytest.approx([0.1307], abs=5e-5)
    assert card["std"] == pytest.approx([0.3081], abs=5e-5)
    assert card["substitute"] is None


def test_fashion_mnist_has_its_well_known_moments():
    card = prepared("fashion-mnist").card
    assert card["mean"] + card["std"] == pytest.approx([0.2860, 0.3530], abs=1e-4)


def test_cifar10_is_in_the_official_order():
    tensors, card = prepared("cifar10").tensors, prepared("cifar10").card
    assert tensors["train_labels"][:5].tolist() == [6, 9, 9, 4, 1]
    assert tensors["test_labels"][:5].tolist() == [3, 8, 8, 0, 6]
    assert tensors["train_labels"].bincount().tolist() == [5000] * 10
    assert tensors["train_images"][0, :, 0, 0].tolist() == [59, 62, 63]
    assert card["mean"] == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    assert card["std"] == pytest.approx([0.2470, 0.2435, 0.2616], abs=5e-5)


def test_cifar100_test_part_is_the_published_one():
    tensors = prepared("cifar100").tensors
    assert channel_moments(tensors["test_images"])[0] == pytest.approx([0.50880, 0.48739, 0.44194], abs=5e-6)
    assert tensors["test_labels"].bincount().tolist() == [100] * 100
    assert tensors["train_labels"].bincount().tolist() == [20] * 100


def test_the_imagenet_sample_has_one_image_of_each_class():
    tensors, card = prepared("imagenet-sample").tensors, prepared("imagenet-sample").card
    assert card["shape"] == [3, 64, 64]
    assert tensors["test_labels"].tolist() == list(range(0, 1000, 10))
    assert sorted([*tensors["train_labels"].tolist(), *tensors["test_labels"].tolist()]) == list(range(1000))
    assert card["class_names"][:2] == ["n01440764", "n01443537"]  # tench, goldfish
    # near ImageNet's well-known statistics, as far as a thousand images tell them
    assert card["mean"] == pytest.approx([0.485, 0.456, 0.406], abs=0.02)
    assert "one image per class" in card["substitute"]


def test_lfw_has_twenty_people_with_39_photographs():
    tensors, card = prepared("lfw").tensors, prepared("lfw").card
    assert tensors["train_labels"].bincount().tolist() == [31] * 20
    assert tensors["test_labels"].bincount().tolist() == [8] * 20
    assert card["class_names"][0] == "Alejandro_Toledo"
    assert "20 people x 39 images" in card["substitute"]


def test_emnist_is_upright():
    """A handwritten 1 is taller than wide; in the files' own orientation it lies on its side."""
    tensors = prepared("emnist-byclass").tensors
    ones = tensors["train_images"][tensors["train_labels"] == 1][:, 0] > 127
    height, width = ones.any(2).sum(1).double().mean(), ones.any(1).sum(1).double().mean()
    assert height > 1.5 * width


def test_a_truncated_mirror_file_is_one_clear_line(tmp_path):
    for file in CATALOG["mnist"].mirror.files.values():
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_bytes((Path(MIRROR) / file.path).read_bytes())
    broken = tmp_path / "data/MNIST/raw/train-images-idx3-ubyte.gz"
    broken.write_bytes(broken.read_bytes()[:100_000])
    with pytest.raises(UserError) as caught:
        fetch(CATALOG["mnist"], tmp_path, tmp_path / "raw")
    assert f"{broken} is truncated or corrupt (100000 bytes" in str(caught.value)
    assert "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" in str(caught.value)
    assert "\n" not in str(caught.value)
