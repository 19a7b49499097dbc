"""An entry of the catalog that does not fit its files is refused where they are read, with what to write or change."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leaklab.data.catalog import Entry, load_catalog
from leaklab.data.fetch import fetch
from leaklab.data.labels import Labels
from leaklab.data.prepare import prepare
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors
from leaklab.records.streams import stream

IMAGES = (255 * stream(0, "fit").uniform(12, 1, 5, 5)).numpy().astype(np.uint8)
LABELS = np.arange(12) % 3
PARTS = {"train_images": IMAGES, "train_labels": LABELS, "test_images": IMAGES[:6], "test_labels": LABELS[:6]}


@pytest.fixture
def made(tmp_path):
    """Return what prepares arrays, or a folder of images a class, under an entry."""

    def prepared(arrays=None, classes=3, folders=(), **more):
        if arrays is not None:
            np.savez(tmp_path / "mine.npz", **arrays)
            source = {"reader": "arrays", "files": {"arrays": {"path": "mine.npz", "sha256": None}}}
        else:
            for number, name in enumerate(folders):
                for part in ("train", "test"):
                    (tmp_path / part / name).mkdir(parents=True)
                    Image.fromarray(IMAGES[number, 0]).convert("RGB").save(tmp_path / part / name / "0.png")
            files = {part: {"path": part, "sha256": None} for part in ("train", "test")}
            source = {"reader": {"name": "image-folders", "side": 5}, "files": files}
        entry = Entry(
            title="-", num_classes=classes, licence="-", citation="-", instructions="-", **more,
            mirror=source,
        )  # fmt: skip
        found = prepare("mine", entry, fetch(entry, tmp_path))
        write_tensors(tmp_path / "mine.safetensors", found.tensors)
        write_json(tmp_path / "mine.json", found.card)
        # what is written can be read: nothing is left to a capture to refuse
        return Labels.load(tmp_path / "mine.safetensors")

    return prepared


def line(made, *arguments, **settings):
    with pytest.raises(UserError) as caught:
        made(*arguments, **settings)
    said = str(caught.value)
    assert said.startswith("config/datasets.yaml: mine: ")
    assert "\n" not in said
    assert "snakemake" not in said
    return said


@pytest.mark.parametrize("classes", [2, 10])
def test_other_numbers_of_classes_than_folders(made, classes):
    said = line(made, classes=classes, folders="abc")
    assert f"the files have 3 classes (a, b, c), num_classes is {classes}: write num_classes: 3, or take out" in said


def test_other_numbers_of_classes_than_labels(made):
    assert "labels go from 0 to 2, num_classes is 2: write num_classes: 3" in line(made, PARTS, classes=2)
    assert "labels go from 0 to 2, num_classes is 10: write num_classes: 3" in line(made, PARTS, classes=10)
    said = line(made, PARTS, classes=2, class_names=("x", "y"))
    assert "write num_classes: 3, and as many class_names" in said
    # who names ten classes may have images of three
    assert made(PARTS, classes=10, class_names=tuple("0123456789")).num_classes == 10


def test_other_names_of_classes_than_folders(made):
    said = line(made, classes=2, folders="ab", class_names=("a", "c"))
    assert "class_names are a, c, the files say a, b: leave out class_names, or rename one side" in said


def test_labels_from_one(made):
    later = PARTS | {"train_labels": LABELS + 1, "test_labels": LABELS[:6] + 1}
    for classes in (3, 4, 5):
        assert "labels go from 1 to 3: number the classes from 0" in line(made, later, classes=classes)


def test_images_of_two_sizes(made):
    with pytest.raises(UserError, match="make them alike"):
        made(PARTS | {"test_images": IMAGES[:6, :, 1:]})


def test_images_of_two_sizes_in_four_files(tmp_path):
    files = {}
    for name, array in (PARTS | {"test_images": IMAGES[:6, :, 1:]}).items():
        plain = array[:, 0] if array.ndim == 4 else array.astype(np.uint8)
        header = struct.pack(">HBB", 0, 8, plain.ndim) + struct.pack(f">{plain.ndim}I", *plain.shape)
        (tmp_path / name).write_bytes(gzip.compress(header + plain.tobytes()))
        files[name] = {"path": name, "sha256": None}
    mirror = {"reader": "idx", "files": files}
    entry = Entry(title="-", num_classes=3, licence="-", citation="-", instructions="-", mirror=mirror)
    with pytest.raises(UserError, match="mine: training images are 1x5x5, test images 1x4x5: make them of one size"):
        prepare("mine", entry, fetch(entry, tmp_path))


@pytest.mark.parametrize("level", [0, 255])
def test_images_of_one_color(made, level):
    said = line(made, PARTS | {"train_images": np.full_like(IMAGES, level)})
    assert f"channel 0 of every training image is {level} of 255 all over, so there is nothing to attack" in said


def test_one_constant_channel_of_three(made):
    colored = {name: np.repeat(array, 3, 1) if array.ndim == 4 else array for name, array in PARTS.items()}
    colored["train_images"][:, 1] = 7
    assert "channel 1 of every training image is 7 of 255" in line(made, colored)


@pytest.mark.parametrize(("part", "said"), [("train", "training"), ("test", "test")])
def test_images_of_one_color_each(made, part, said):
    """Though they differ from each other."""
    images = PARTS[f"{part}_images"]
    said = f"every {said} image is of one color all over, so there is nothing to attack"
    assert said in line(made, PARTS | {f"{part}_images": np.ones_like(images) * images[:, :, :1, :1]})


def test_parts_without_images(made):
    single = {"images": IMAGES[:3], "labels": LABELS[:3]}  # one of each class: nothing is left to test
    assert "there are no test images: give both parts images" in line(made, single)


def test_what_fits_is_kept(made):
    assert made(PARTS).num_classes == 3
    assert made(folders="abc").train_labels.tolist() == [0, 1, 2]


def test_images_of_all_catalogued_packages_fit():
    """Nothing that is embedded is refused, and its card says nothing new."""
    for name, entry in load_catalog(Path(__file__).parents[2] / "config/datasets.yaml").items():
        if entry.embedded:
            found = prepare(name, entry, fetch(entry, None))
            assert not {"left_out", "noticed"} & found.card.keys()
            assert isinstance(found.tensors["train_images"], torch.Tensor)
