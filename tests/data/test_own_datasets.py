"""Data sets of users: an npz file of `mine/data` is read as any other, or refused in one line that says what to do."""

from pathlib import Path

import numpy as np
import pytest

from leaklab.data.catalog import CATALOG, find_entry, load_catalog, own_datasets
from leaklab.data.fetch import fetch
from leaklab.data.prepare import check_readers, prepare
from leaklab.guests.places import plain
from leaklab.records.errors import UserError
from leaklab.records.record import canonical_json
from leaklab.records.streams import stream

ROOT = Path(__file__).parents[2]
DRAWS = stream(0, "own data")
IMAGES = (255 * DRAWS.uniform(20, 3, 6, 5)).numpy().astype(np.uint8)
LABELS = np.arange(20) % 4
PARTS = {"train_images": IMAGES[:12], "train_labels": LABELS[:12], "test_images": IMAGES[12:],
         "test_labels": LABELS[12:].astype(np.uint8)}  # fmt: skip


@pytest.fixture
def save(tmp_path, monkeypatch):
    """Return what writes a file of `mine/data` and returns the name that runs give it."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    (tmp_path / "mine/data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def write(name="scans", **arrays):
        np.savez(f"mine/data/{name}.npz", **arrays)
        return own_datasets()[name]

    return write


def prepared(key):
    entry = find_entry(key, load_catalog())
    check_readers(key, entry)
    return prepare(key, entry, fetch(entry, None))


def test_parts_are_kept_and_classes_counted(save):
    found = prepared(save(**PARTS))
    for name, array in PARTS.items():
        assert (found.tensors[name].numpy() == array).all()
    assert (found.card["num_classes"], found.card["shape"]) == (4, [3, 6, 5])
    assert found.card["files"][0]["path"] == "mine/data/scans.npz"
    assert found.tensors["test_labels"].dtype == found.tensors["train_labels"].dtype


def test_one_part_is_cut_class_by_class(save):
    tensors = prepared(save(images=IMAGES, labels=LABELS)).tensors
    assert tensors["train_labels"].bincount().tolist() == [4, 4, 4, 4]
    assert tensors["test_labels"].bincount().tolist() == [1, 1, 1, 1]
    both = np.concatenate([tensors["train_images"].numpy(), tensors["test_images"].numpy()])
    assert sorted(image.tobytes() for image in both) == sorted(image.tobytes() for image in IMAGES)


def test_other_bytes_are_another_data_set(save):
    assert plain(save(**PARTS)) == "scans"  # the mark of all guests, by which what is published leaves them out
    first, second = save(**PARTS), save(**{**PARTS, "train_images": PARTS["train_images"] ^ 1})
    assert first != second
    with pytest.raises(UserError, match=r"mine/data/scans.npz is not what it was .*: run the same command again"):
        find_entry(first, {})
    Path("mine/data/scans.npz").unlink()
    with pytest.raises(UserError, match="run the same command again"):
        find_entry(second, {})


WRONG = {
    "floats": ({**PARTS, "test_images": PARTS["test_images"] / 255}, r"test_images is float64 \[8, 3, 6, 5\]: make it"),
    "no channels": ({**PARTS, "train_images": IMAGES[:12, 0]}, r"train_images is uint8 \[12, 6, 5\]: make it uint8"),
    "channels last": ({"images": IMAGES.transpose(0, 2, 3, 1), "labels": LABELS}, "C 1 or 3"),
    "no images": ({"images": IMAGES[:0], "labels": LABELS[:0]}, "make it uint8"),
    "two sizes": ({**PARTS, "test_images": PARTS["test_images"][..., 1:]}, "make them alike"),
    "too few labels": ({"images": IMAGES, "labels": LABELS[1:]}, "images has 20 images: give as many labels"),
    "shares for labels": ({"images": IMAGES, "labels": LABELS / 4}, "whole numbers from 0"),
    "a label below 0": ({"images": IMAGES, "labels": LABELS - 1}, "go from -1 to 2: number classes from 0"),
    "a hash for a label": ({"images": IMAGES, "labels": LABELS + 123_456_789}, "number classes from 0"),
    "other names": ({"x": IMAGES, "y": LABELS}, "save it by numpy.savez with train_images"),
    "objects": ({"images": IMAGES, "labels": LABELS.astype(object)}, "save it by numpy.savez"),
}  # fmt: skip


@pytest.mark.parametrize(("arrays", "line"), WRONG.values(), ids=list(WRONG))
def test_what_is_no_data_set_is_refused_in_one_line(save, arrays, line):
    with pytest.raises(UserError, match=line) as refused:
        prepared(save(**arrays))
    assert "mine/data/scans.npz" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_damaged_file_is_one_line(save):
    save(**PARTS)
    file = Path("mine/data/scans.npz")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(UserError, match="cannot be read"):
        prepared(own_datasets()["scans"])


@pytest.mark.parametrize(("name", "line"), [("mnist", f"and {CATALOG} both offer"), ("My_Scans", "small letters")])
def test_a_name_that_cannot_be_is_refused(save, name, line):
    with pytest.raises(UserError, match=line):
        save(name, **PARTS)


def test_entries_of_the_catalog_are_written_as_they_were():
    assert not any('"own"' in canonical_json(entry) for entry in load_catalog(ROOT / CATALOG).values())
