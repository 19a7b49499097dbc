"""Entries of the catalog and files of arrays: the data set that they mean, or one line; nothing else is touched."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from hypothesis import strategies as st
from PIL import Image

from cases.images import SIDE
from cases.outcomes import TAKEN, Wrong, ensure, read_or_refused, unchanged
from cases.spoil import Draw, altered, damaged
from leaklab.data.catalog import Entry, load_catalog
from leaklab.data.dataset import Dataset
from leaklab.data.fetch import fetch
from leaklab.data.labels import Labels
from leaklab.data.prepare import Prepared, check_readers, prepare
from leaklab.records.files import write_json, write_tensors

ENTRY = {
    "title": "Mine", "num_classes": 2, "class_names": [], "licence": "-", "citation": "-", "instructions": "make them",
    "mirror": {
        "reader": {"name": "image-folders", "side": SIDE, "background": "navy", "white": 9.5},
        "files": {part: {"path": part, "sha256": None} for part in ("train", "test")},
    },
}  # fmt: skip
RAMP = np.arange(SIDE**2, dtype=np.uint8).reshape(SIDE, SIDE)
SHIFTED = np.dstack([RAMP, 9 * RAMP, 255 - RAMP])
EDITORS = {
    "as it is": lambda text: text,
    "with a mark of the byte order": lambda text: b"\xef\xbb\xbf" + text,
    "with the line ends of Windows": lambda text: text.replace(b"\n", b"\r\n"),
    "with tabs": lambda text: text.replace(b"  ", b"\t"),
    "as UTF-16": lambda text: text.decode().encode("utf-16"),
    "without the last line end": lambda text: text.rstrip(b"\n"),
    "twice": lambda text: text + text,
    "with a second document": lambda text: text + b"---\n" + text,
    "with comments": lambda text: b"# mine\n\n" + text + b"\n# end",
    "with no-break spaces": lambda text: text.replace(b": ", b":\xc2\xa0"),
    "in quotes of a word processor": lambda text: text.replace(b"'", "\u2019".encode()),
}
"""How programs leave a file of text."""
Spec = dict[str, Any]


def text_of(value: Any, draw: Draw) -> bytes:
    """Return a value as YAML or JSON, as some editor leaves it."""
    try:
        plain = yaml.safe_dump(value, allow_unicode=draw(st.booleans()), sort_keys=draw(st.booleans()),
                               default_flow_style=draw(st.sampled_from([None, False, True])))  # fmt: skip
        written = plain.encode()
    except (UnicodeEncodeError, yaml.YAMLError):
        written = json.dumps(value).encode()
    return bytes(EDITORS[draw(st.sampled_from(sorted(EDITORS)))](written)) if draw(st.booleans()) else written


def make_two(folder: Path) -> None:
    """Write two classes of one picture each, once."""
    for part in ("train", "test"):
        for name, picture in (("a", RAMP), ("b", SHIFTED)):
            if not (folder / part / name).exists():
                (folder / part / name).mkdir(parents=True)
                Image.fromarray(picture).save(folder / part / name / "1.png")


@contextmanager
def no_network() -> Iterator[None]:
    """Say it where something would be downloaded."""

    def refuse(*arguments: Any, **_: Any) -> None:
        raise Wrong(f"something would be downloaded: {arguments[:1]!r}")

    kept = urllib.request.urlopen
    urllib.request.urlopen = refuse  # type: ignore[assignment]
    try:
        yield
    finally:
        urllib.request.urlopen = kept


def case(draw: Draw, folder: Path) -> str:
    """Use an entry that fits or does not, or a file of arrays."""
    return draw(st.sampled_from([an_entry, an_entry, some_arrays]))(draw, folder)


def an_entry(draw: Draw, folder: Path) -> str:
    """Do with an entry what the step does: its pictures are right if it is taken."""
    own = folder / "two"
    make_two(own)
    entries: Spec = {"mine": ENTRY}
    for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
        entries = altered(entries, draw)
    catalog = folder / "datasets.yaml"
    catalog.write_bytes(text_of(entries, draw))
    if draw(st.integers(0, 4)) == 0:
        catalog.write_bytes(damaged(catalog.read_bytes(), draw))
    with unchanged(own), no_network():
        made, outcome = read_or_refused(_all_prepared, catalog, own)
    for entry, found in made or []:
        _check(entry, found, folder / "d.safetensors")
    return outcome


def _all_prepared(catalog: Path, folder: Path) -> list[tuple[Entry, Prepared]]:
    made = []
    for name, entry in load_catalog(catalog).items():
        check_readers(name, entry)
        made.append((entry, prepare(name, entry, fetch(entry, folder, folder.parent / "raw"))))
    return made


def _check(entry: Entry, found: Prepared, path: Path) -> None:
    """What is let through is read again, has the classes that it says, and the pixels that were brought."""
    write_tensors(path, found.tensors)
    write_json(path.with_suffix(".json"), found.card)
    labels = Labels.load(path)
    ensure(labels.num_classes == entry.num_classes or "own" in entry.model_fields_set, "other classes")
    source = entry.mirror
    if source is None or source.reader.name != "image-folders" or {one.path for one in source.files.values()} != {
        "train", "test"
    }:  # fmt: skip
        return
    if source.reader.settings.get("side") == SIDE:
        expected = np.stack([np.dstack([RAMP] * 3), SHIFTED]).transpose(0, 3, 1, 2)
        ensure(bool((found.tensors["train_images"].numpy() == expected).all()), "other pixels")


KINDS = ("uint8", "uint8", "uint8", "int64", "float32", "float64", "bool", "uint16", "object", "U3", "complex64",
         "M8[s]")  # fmt: skip
SHAPES = st.sampled_from([(1, 3, 3), (1, 3, 3), (3, 3, 3), (3, 3, 1), (3, 3), (1, 0, 3), (2, 3, 3), (1, 1, 1), ()])


def some_arrays(draw: Draw, folder: Path) -> str:
    """Prepare a file of arrays: all of its images are there, each with its label."""
    arrays: Spec = {}
    shape = draw(SHAPES)
    draws = np.random.default_rng(draw(st.integers(0, 9)))
    for part in ("train_", "test_"):
        own = draw(st.lists(st.integers(0, 3), min_size=0, max_size=6)) or [0, 1]
        images = draws.integers(0, 256, (len(own), *(shape if draw(st.integers(0, 9)) else draw(SHAPES))))
        arrays[f"{part}images"] = _as(images, draw(st.sampled_from(KINDS)))
        odd = st.sampled_from([own[1:], [-1, *own[1:]], [[1]], 2.5, [2**40]])
        labels = own if draw(st.integers(0, 9)) else draw(odd)
        arrays[f"{part}labels"] = _as(np.array(labels), draw(st.sampled_from(["int64", "uint8", "int32", *KINDS])))
    if draw(st.integers(0, 2)) == 0:
        arrays = {"images": arrays["train_images"], "labels": arrays["train_labels"]}
    if draw(st.integers(0, 9)) == 0:
        arrays.pop(draw(st.sampled_from(sorted(arrays))))
    own = folder / "arrays"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    draw(st.sampled_from([np.savez, np.savez_compressed]))(own / "a.npz", **arrays)
    spoilt = draw(st.integers(0, 4)) == 0
    if spoilt:
        (own / "a.npz").write_bytes(damaged((own / "a.npz").read_bytes(), draw))
    mirror = {"reader": "arrays", "files": {"arrays": {"path": "a.npz", "sha256": None}}}
    entry = Entry(title="-", num_classes=draw(st.integers(1, 4)), licence="-", citation="-", instructions="-",
                  mirror=mirror)  # type: ignore[arg-type]  # fmt: skip
    with unchanged(own):
        found, outcome = read_or_refused(lambda: prepare("mine", entry, fetch(entry, own)))
    if outcome is TAKEN:
        _check(entry, found, folder / "a.safetensors")
        _check_arrays(arrays, Dataset.load(folder / "a.safetensors"))
    return outcome


def _as(values: Any, kind: str) -> Any:
    array = np.asarray(values)
    return array.astype(kind) if kind != "M8[s]" else array.astype("int64").astype(kind)


def _check_arrays(arrays: Spec, found: Dataset) -> None:
    images, labels = (
        np.concatenate([value for name, value in arrays.items() if name.endswith(what)])
        for what in ("images", "labels")
    )
    parts = [(found.train_images, found.train_labels), (found.test_images, found.test_labels)]
    pairs = (pair for own, to in parts for pair in zip(own, to, strict=True))
    read = sorted((int(label), image.numpy().tobytes()) for image, label in pairs)
    brought = sorted((int(label), image.tobytes()) for image, label in zip(images, labels, strict=True))
    ensure(read == brought, "images or labels are others, or some are gone")
