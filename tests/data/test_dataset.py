import numpy as np
import pytest
import torch

from leaklab.data.dataset import Dataset, channel_moments, unit_range
from leaklab.data.labels import Labels
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors

CARD = {"name": "toy", "num_classes": 3, "shape": [2, 4, 5], "mean": [0.25, 0.5], "std": [0.5, 0.25],
        "substitute": "a toy"}  # fmt: skip


def toy_tensors():
    images = torch.arange(6 * 40, dtype=torch.uint8).reshape(6, 2, 4, 5)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    return {
        "train_images": images,
        "train_labels": labels,
        "test_images": images[:2].clone(),
        "test_labels": labels[:2].clone(),
    }


@pytest.fixture
def write(tmp_path):
    def write_both(tensors=(), card=()):
        path = tmp_path / "toy.safetensors"
        write_tensors(path, {**toy_tensors(), **dict(tensors)})
        write_json(path.with_suffix(".json"), {**CARD, **dict(card)})
        return path

    return write_both


def test_load_returns_what_was_written(write):
    dataset = Dataset.load(write())
    assert (dataset.name, dataset.num_classes, dataset.shape, dataset.substitute) == ("toy", 3, (2, 4, 5), "a toy")
    assert torch.equal(dataset.part("train")[0], toy_tensors()["train_images"])
    assert torch.equal(dataset.part("test")[1], toy_tensors()["test_labels"])


def test_labels_are_what_the_dataset_has_but_its_images(write):
    path = write({"train_groups": torch.tensor([5, 5, 0, 0, 0, 7])})
    dataset, labels = Dataset.load(path), Labels.load(path)
    assert (labels.name, labels.num_classes, labels.substitute) == ("toy", 3, "a toy")
    for name in ("train_labels", "test_labels", "train_groups"):
        assert getattr(labels, name).dtype == np.int64
        assert getattr(labels, name).tolist() == getattr(dataset, name).tolist()


def test_normalised_is_the_formula_per_channel(write):
    dataset = Dataset.load(write())
    image = dataset.normalised(dataset.train_images)[3]
    for channel, (mean, std) in enumerate([(0.25, 0.5), (0.5, 0.25)]):
        wanted = (dataset.train_images[3, channel].double() / 255 - mean) / std
        torch.testing.assert_close(image[channel].double(), wanted, rtol=1e-6, atol=1e-6)
    assert image.dtype == torch.float32
    assert dataset.normalised(dataset.train_images, torch.float64).dtype == torch.float64


def test_unit_range_spans_zero_to_one():
    assert unit_range(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])


def test_moments_agree_with_the_direct_formula():
    images = torch.randint(0, 256, (50, 3, 7, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    mean, std = channel_moments(images)
    unit = images.double() / 255
    assert mean == pytest.approx(unit.mean((0, 2, 3)).tolist(), rel=1e-12)
    assert std == pytest.approx(unit.std((0, 2, 3), correction=0).tolist(), rel=1e-12)


@pytest.mark.parametrize("load", [Dataset.load, Labels.load])
@pytest.mark.parametrize(
    ("tensors", "card", "expected"),
    [
        ({"train_images": torch.zeros(6, 2, 4, 5)}, {}, "train_images are F32"),
        ({"test_images": torch.zeros(2, 1, 4, 5, dtype=torch.uint8)}, {}, "the card says U8 [N, *[2, 4, 5]]"),
        ({"train_labels": torch.zeros(5, dtype=torch.int64)}, {}, "train_labels are I64 [5] for 6 images"),
        ({"train_labels": torch.zeros(6, dtype=torch.int32)}, {}, "train_labels are I32"),
        ({"test_labels": torch.tensor([0, 3])}, {}, "test_labels are not all within 0..2"),
        ({"test_labels": torch.tensor([0, -1])}, {}, "test_labels are not all within 0..2"),
        ({"more": torch.zeros(1)}, {}, "it holds more"),
        ({}, {"std": [0.5, 0.0]}, "positive std"),
        ({}, {"mean": [0.5]}, "for each channel"),
    ],
)
def test_what_does_not_fit_together_is_one_clear_line(write, load, tensors, card, expected):
    with pytest.raises(UserError) as caught:
        load(write(tensors, card))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("load", [Dataset.load, Labels.load])
def test_missing_and_incomplete_cards(write, load):
    path = write()
    write_json(path.with_suffix(".json"), {"name": "toy"})
    with pytest.raises(UserError, match="its card lacks mean, num_classes, shape, std, substitute"):
        load(path)
    path.with_suffix(".json").unlink()
    with pytest.raises(UserError, match=r"toy\.json is missing"):
        load(path)


@pytest.mark.parametrize("load", [Dataset.load, Labels.load])
def test_damaged_and_missing_tensors(write, load):
    path = write()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"toy\.safetensors is damaged"):
        load(path)
    path.unlink()
    with pytest.raises(UserError, match=r"toy\.safetensors is missing"):
        load(path)


def test_groups_are_read_where_there_are_any(write):
    assert Dataset.load(write()).train_groups is Labels.load(write()).train_groups is None
    groups = torch.tensor([5, 5, 0, 0, 0, 7])
    assert torch.equal(Dataset.load(write({"train_groups": groups})).train_groups, groups)


@pytest.mark.parametrize("groups", [torch.tensor([5, 5]), torch.zeros(6)])
def test_groups_that_do_not_fit_are_refused(write, groups):
    path = write({"train_groups": groups})
    for load in (Dataset.load, Labels.load):
        with pytest.raises(UserError, match="train_groups are"):
            load(path)
