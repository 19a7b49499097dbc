"""Folders of images and entries of the catalog as people write them: right images, or one line."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from cases.catalogs import ENTRY
from cases.images import BESIDE, SIDE, right_level, trees, written
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from leaklab.data.catalog import Entry, load_catalog
from leaklab.data.fetch import fetch
from leaklab.data.labels import Labels
from leaklab.data.prepare import check_readers, prepare
from leaklab.data.readers.base import Samples
from leaklab.data.readers.folders import ImageFolders
from leaklab.data.readers.imagenet import LazyFolders
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors

UNTRUSTED = settings.get_profile("untrusted")


@settings(UNTRUSTED, max_examples=40)
@given(parts=trees(), beside=st.lists(st.tuples(st.sampled_from(["train", "train/cat", "test"]), BESIDE), max_size=3))
def test_folders_of_images_are_right_or_refused(tmp_path_factory, reading, parts, beside):
    folders = written(tmp_path_factory.getbasetemp() / "own", parts, beside)
    found = reading(ImageFolders(SIDE).read, folders)
    assert isinstance(found, Samples), found
    for part, images, labels in (
        ("train", found.train_images, found.train_labels), ("test", found.test_images, found.test_labels)
    ):  # fmt: skip
        ordered = sorted(parts[part], key=lambda name: [os.fsdecode(one) for one in name.split(b"/")])
        assert images[:, 0, 0, 0].tolist() == [right_level(*parts[part][name]) for name in ordered]
        assert (images == images[:, :1, :1, :1]).all()
        classes = sorted({os.fsdecode(name.split(b"/")[0]) for name in parts["train"]})
        assert labels.tolist() == [classes.index(os.fsdecode(name.split(b"/")[0])) for name in ordered]
    json.dumps(found.notes, ensure_ascii=False).encode()
    "".join(found.class_names).encode()
    told = sum(kind["count"] for kind in found.notes.get("left_out", {}).values())
    assert told >= len({place for place in beside if not place[1].endswith(b"/")} and {1})
    reading(LazyFolders(SIDE, SIDE).read, folders)


@settings(UNTRUSTED, max_examples=40)
@given(parts=trees(), data=st.data())
def test_a_spoilt_folder_is_read_or_one_line(tmp_path_factory, reading, parts, data):
    folder = tmp_path_factory.getbasetemp() / "spoilt"
    folders = written(folder, parts, [])
    victims = sorted(path for own in folders.values() for path in own.rglob("*"))
    victim = data.draw(st.sampled_from(victims))
    match data.draw(st.sampled_from(["damage", "lost", "moved", "link", "loop", "file"])):
        case "damage" if victim.is_file():
            victim.write_bytes(reading.damaged(victim.read_bytes(), data.draw))
        case "moved":
            victim.rename(folder / data.draw(st.sampled_from(["train/moved.png", "test/moved", "train/a", "outside"])))
        case "link":
            victim.rename(folder / "elsewhere")
            victim.symlink_to(folder / "elsewhere")
        case "loop":
            (victim if victim.is_dir() else victim.parent).joinpath("again").symlink_to(folder / "train")
        case "file":
            shutil.rmtree(folder / "train")
            (folder / "train").write_bytes(b"x")
        case _:
            shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    for reader in (ImageFolders(SIDE), LazyFolders(SIDE, SIDE)):
        reading(reader.read, folders)


def prepared(folder):
    """Do what the step does with the catalog of a folder."""
    for name, entry in load_catalog(folder / "datasets.yaml").items():
        check_readers(name, entry)
        made = prepare(name, entry, fetch(entry, folder, folder / "raw"))
        write_tensors(folder / "d.safetensors", made.tensors)
        write_json(folder / "d.json", made.card)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    ramp = np.arange(SIDE**2, dtype=np.uint8).reshape(SIDE, SIDE)
    for part in ("train", "test"):
        for name, picture in (("a", ramp), ("b", np.dstack([ramp, 9 * ramp, 255 - ramp]))):
            (folder / part / name).mkdir(parents=True)
            Image.fromarray(picture).save(folder / part / name / "1.png")
    return folder


def test_the_entry_fits_before_it_is_spoilt(two):
    write_json(two / "datasets.yaml", {"mine": ENTRY})
    prepared(two)
    assert Labels.load(two / "d.safetensors").num_classes == 2
    for made in two.glob("d.*"):
        made.unlink()


@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_an_entry_is_used_or_one_line(two, reading, monkeypatch, data):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("nothing is downloaded"))
    (two / "datasets.yaml").write_bytes(reading.spoilt_json({"mine": ENTRY}, data.draw))
    if not isinstance(reading(prepared, two), UserError) and (two / "d.safetensors").exists():
        assert Labels.load(two / "d.safetensors").num_classes == 2


@settings(UNTRUSTED, max_examples=100)
@given(
    classes=st.integers(1, 6),
    named=st.booleans(),
    labels=st.tuples(*[st.lists(st.integers(0, 5), min_size=1, max_size=6)] * 2),
    sizes=st.tuples(*[st.sampled_from([(1, 3, 3), (3, 3, 3), (1, 3, 4)])] * 2),
    levels=st.sampled_from([0, 1, 255]),
    single=st.booleans(),
)
def test_an_entry_fits_its_arrays_or_is_one_line(
    tmp_path_factory, reading, classes, named, labels, sizes, levels, single
):
    folder = tmp_path_factory.getbasetemp()
    draws = np.random.default_rng(0)
    arrays = {}
    for part, own, size in zip(("train_", "test_"), labels, sizes, strict=True):
        arrays[f"{part}images"] = draws.integers(0, levels + 1, (len(own), *size)).astype(np.uint8)
        arrays[f"{part}labels"] = np.array(own)
    if single:
        arrays = {"images": arrays["train_images"], "labels": arrays["train_labels"]}
    np.savez(folder / "a.npz", **arrays)
    mirror = {"reader": "arrays", "files": {"arrays": {"path": "a.npz", "sha256": None}}}
    names = tuple("abcdef"[:classes]) if named else ()
    entry = Entry(title="-", num_classes=classes, class_names=names, licence="-", citation="-", instructions="-",
                  mirror=mirror)  # fmt: skip
    found = reading(lambda: prepare("mine", entry, fetch(entry, folder)))
    if isinstance(found, UserError):
        assert not {"snakemake", "delete it"} & {str(found)}
        return
    write_tensors(folder / "a.safetensors", found.tensors)
    write_json(folder / "a.json", found.card)
    # what is let through is never refused later
    assert Labels.load(folder / "a.safetensors").num_classes == classes
    every = np.concatenate([found.tensors["train_labels"].numpy(), found.tensors["test_labels"].numpy()])
    assert every.min() == 0
    assert named or every.max() == classes - 1


def test_names_of_bytes_are_possible_here(tmp_path):
    """Else the trees above would test nothing of them."""
    Path(tmp_path, os.fsdecode(b"M\xfcller")).mkdir()
    assert [os.fsencode(path.name) for path in tmp_path.iterdir()] == [b"M\xfcller"]
