"""Folders of images: the right pictures with the right labels, or one line; every file is read or told of."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from cases.outcomes import REFUSED, TAKEN, ensure, read_or_refused, unchanged
from cases.spoil import Draw, damaged
from leaklab.data.readers.base import Samples
from leaklab.data.readers.folders import ImageFolders
from leaklab.data.readers.imagenet import LazyFolders

SIDE = 4
LEVELS = st.integers(0, 255)
FOLDERS = st.sampled_from([b"cat", b"dog", b"M\xfcller", "Müller".encode(), b"a b", b"x\ny", b"-", b"\xff", b"Cat",
                           b"0", b"00", b"{x}", b"*", b"cat.png", b"\xf0\x9f\x90\xb1", b"c" * 200])  # fmt: skip
STEMS = st.sampled_from([b"1", b"2", b"gr\xfc\xdfe", "größe".encode(), b"a b", b"x\ny", b"2024.01", b"%s", b"1.png",
                         b"[1]", b"-rf", b"~", b"s" * 200])  # fmt: skip
ENDINGS = {b".png": "PNG", b".PNG": "PNG", b".bmp": "BMP", b".tif": "TIFF", b".gif": "GIF", b".ppm": "PPM",
           b".webp": "WEBP", b".TIFF": "TIFF", b".tga": "TGA"}  # fmt: skip
BESIDE = st.sampled_from([b".DS_Store", b"Thumbs.db", b"1.png~", b"._1.png", b"notes.txt", b"labels", b".git/1.png",
                          b"__MACOSX/1.png", b"a.mat", b"empty/", b"a.npy", b"README.md", b"x.zip"])  # fmt: skip
KINDS = {"PNG": ("deep", "rgba", "palette", "color", "gray", "la", "one", "one, clear"),
         "BMP": ("color", "gray", "palette"), "GIF": ("gray", "several"), "PPM": ("color", "gray", "deep"),
         "TIFF": ("deep", "rgba", "color", "gray", "float", "several"), "WEBP": ("color", "rgba"),
         "TGA": ("color", "gray", "rgba")}  # fmt: skip
SIZES = st.sampled_from([(4, 4), (4, 4), (8, 8), (1, 1), (3, 9), (40, 4)])
Parts = dict[str, dict[bytes, tuple[int, str]]]


def of_level(level: int, kind: str, size: tuple[int, int] = (SIDE, SIDE)) -> Image.Image:
    """Return a picture of one gray, stored in one of many ways, for which that level is right."""
    gray = np.full(size, level, np.uint8)
    opaque = np.full_like(gray, 255)
    match kind:
        case "deep":
            return Image.fromarray(gray.astype(np.uint16) * 257)
        case "float":
            return Image.fromarray(gray.astype(np.float32) / np.float32(255))
        case "rgba":
            return Image.fromarray(np.dstack([gray, gray, gray, opaque]))
        case "la":
            return Image.fromarray(np.dstack([gray, opaque]))
        case "one":
            return Image.fromarray(opaque * (level > 127)).convert("1")
        case "one, clear":  # nothing of it is to be seen, so that white is right
            return Image.fromarray(np.dstack([gray, gray, gray, np.zeros_like(gray)]))
        case "palette":
            image = Image.fromarray(np.zeros_like(gray)).convert("P")
            image.putpalette([level] * 3)
            return image
        case "color":
            return Image.fromarray(np.dstack([gray] * 3))
    return Image.fromarray(gray)


def right_level(level: int, kind: str) -> int:
    """Return the level that is to be read."""
    return {"one": 255 * (level > 127), "one, clear": 255}.get(kind, level)


@st.composite
def trees(draw: Draw) -> Parts:
    """Return part -> name in bytes -> level and kind of a picture; both parts have the same folders."""
    classes = draw(st.sets(FOLDERS, min_size=1, max_size=3))
    parts: Parts = {}
    for part in ("train", "test"):
        parts[part] = {}
        for folder in sorted(classes):
            for stem in draw(st.sets(STEMS, min_size=1, max_size=2)):
                ending = draw(st.sampled_from(sorted(ENDINGS)))
                kind = draw(st.sampled_from(KINDS[ENDINGS[ending]]))
                parts[part][folder + b"/" + stem + ending] = (draw(LEVELS), kind)
    return parts


def written(
    folder: Path, parts: Parts, beside: list[tuple[str, bytes]], sizes: Mapping[bytes, tuple[int, int]] | None = None
) -> dict[str, Path]:
    """Write a tree anew, and return the folders of its parts."""
    shutil.rmtree(folder, ignore_errors=True)
    for part, files in parts.items():
        for name, (level, kind) in files.items():
            path = folder / part / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            image = of_level(level, kind, (sizes or {}).get(name, (SIDE, SIDE)))
            more: dict[str, Any] = {"lossless": True} if name.endswith(b".webp") else {}
            if kind == "several":
                more = {"save_all": True, "append_images": [of_level(255 - level, "gray", image.size[::-1])]}
            image.save(path, ENDINGS[os.path.splitext(name)[1]], **more)  # noqa: PTH122 - of bytes
    for place, name in beside:
        path = folder / place / os.fsdecode(name)
        if name.endswith(b"/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\x89PNG no image")
    return {part: folder / part for part in parts}


def case(draw: Draw, folder: Path) -> str:
    """Read a folder of images, as it is or with one thing spoilt; nothing in it may change."""
    parts = draw(trees())
    sizes = {name: draw(SIZES) for part in parts.values() for name in part} if draw(st.booleans()) else {}
    beside = draw(st.lists(st.tuples(st.sampled_from(["train", "train/cat", "test"]), BESIDE), max_size=3))
    own = folder / "own"
    folders = written(own, parts, beside, sizes)
    spoilt = draw(st.integers(0, 1)) and _spoil(own, draw)
    with unchanged(own):
        found, outcome = read_or_refused(ImageFolders(SIDE).read, folders)
        _, lazy = read_or_refused(LazyFolders(SIDE, SIDE).read, folders)
    if found is None:
        ensure(bool(spoilt), "nothing was spoilt, and it was refused")
    else:
        _check_count(folders, found)
        if not spoilt:
            _check_pixels(parts, found)
    return TAKEN if TAKEN in (outcome, lazy) else REFUSED


def _spoil(folder: Path, draw: Draw) -> str:
    """Spoil one thing below a folder, and return what was done."""
    victims = sorted(path for part in ("train", "test") for path in (folder / part).rglob("*"))
    victim: Path = draw(st.sampled_from(victims))
    what: str = draw(st.sampled_from(["damage", "damage", "lost", "moved", "link", "loop", "file", "pipe", "nowhere",
                                      "longer", "empty"]))  # fmt: skip
    match what:
        case "damage" if victim.is_file():
            victim.write_bytes(damaged(victim.read_bytes(), draw))
        case "empty" if victim.is_file():
            victim.write_bytes(b"")
        case "longer" if victim.is_file():
            victim.write_bytes(victim.read_bytes() + b"\0" * 100)
        case "moved":
            where = draw(st.sampled_from(["train/moved.png", "test/moved", "train/a", "outside", "test/cat/x/y.png"]))
            (folder / where).parent.mkdir(parents=True, exist_ok=True)
            if victim not in (folder / where).parents and not (folder / where).exists():
                victim.rename(folder / where)
        case "link":
            victim.rename(folder / "elsewhere")
            victim.symlink_to(folder / "elsewhere")
        case "nowhere":
            (victim if victim.is_dir() else victim.parent).joinpath("gone.png").symlink_to(folder / "nowhere")
        case "loop":
            (victim if victim.is_dir() else victim.parent).joinpath("again").symlink_to(folder / "train")
        case "pipe":
            os.mkfifo((victim if victim.is_dir() else victim.parent) / "pipe.png")
        case "file":
            shutil.rmtree(folder / "train")
            (folder / "train").write_bytes(b"x")
        case _:
            shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    return what


def _check_count(folders: Mapping[str, Path], found: Samples) -> None:
    """Every file is an image that was read, or is told of as left out."""
    files = sum(len(own) for folder in folders.values() for _, _, own in os.walk(folder, followlinks=True))
    read = len(found.train_images) + len(found.test_images)
    told = sum(kind["count"] for kind in found.notes.get("left_out", {}).values())
    ensure(read <= files <= read + told + _hidden(folders), f"{files} files, {read} read, {told} told of")


def _hidden(folders: Mapping[str, Path]) -> int:
    """Return how many files lie in hidden folders, which are told of as one each."""
    places = (Path(place) for folder in folders.values() for place, _, own in os.walk(folder) for _ in own)
    return sum(any(part in (".git", "__MACOSX") for part in place.parts) for place in places)


def _check_pixels(parts: Parts, found: Samples) -> None:
    for part, images, labels in (
        ("train", found.train_images, found.train_labels), ("test", found.test_images, found.test_labels)
    ):  # fmt: skip
        ordered = sorted(parts[part], key=lambda name: [os.fsdecode(one) for one in name.split(b"/")])
        levels = [right_level(*parts[part][name]) for name in ordered]
        ensure(images[:, 0, 0, 0].tolist() == levels, f"read {images[:, 0, 0, 0].tolist()} of {levels}")
        ensure(bool((images == images[:, :1, :1, :1]).all()), "not of one gray")
        classes = sorted({os.fsdecode(name.split(b"/")[0]) for name in parts["train"]})
        own = [classes.index(os.fsdecode(name.split(b"/")[0])) for name in ordered]
        ensure(labels.tolist() == own, f"labels {labels.tolist()} of {own}")
    json.dumps(found.notes, ensure_ascii=False).encode()
    "".join(found.class_names).encode()
    several = sum(kind == "several" for part in parts.values() for _, kind in part.values())
    noticed = found.notes.get("noticed", {})
    told = next((one["count"] for name, one in noticed.items() if "more pictures" in name), 0)
    ensure(told == several, f"{several} with more pictures, {told} told of")
