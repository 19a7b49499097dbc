"""The workspace: a clone of the checkout with few items, made as short as they can be, in which faults are tried."""

import gzip
import hashlib
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

CHECKOUT = Path(__file__).parents[2]
ITEMS = Path(__file__).with_name("items.yaml")
TINY, TINY_IMAGES = "tiny-digits", {"train": 20, "test": 10}
IDENTITY = {f"GIT_{who}_{what}": "chaos" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass(frozen=True)
class Workspace:
    """A checkout of its own, with its own sources on the path, one thread for a job, and a mirror of its own.

    Attributes:
        folder: of the checkout.
        mirror: folder with the files of one small data set, ``TINY``.
    """

    folder: Path
    mirror: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its commands."""
        # what is compiled once is kept: hundreds of steps load the same modules
        kept = {key: value for key, value in os.environ.items() if key not in ("GIT_DIR", "PYTHONDONTWRITEBYTECODE")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(self.folder / "src"), "LEAKLAB_MIRROR": str(self.mirror)}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        return {**kept, **IDENTITY, **own, **threads, "LEAKLAB_CHECKPOINT_SECONDS": "0"}


def make_workspace(folder: Path) -> Workspace:
    """Clone what is committed here, leave out all results, keep the items of ``items.yaml``, add a small data set."""
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder)], check=True, capture_output=True)
    made = Workspace(folder, folder.with_name("mirror"))
    for name in ("results", "figures"):
        shutil.rmtree(folder / name, ignore_errors=True)
    _shorten(folder / "config/items")
    with (folder / "config/datasets.yaml").open("a", encoding="utf-8") as catalog:
        catalog.write("\n" + yaml.safe_dump({TINY: _tiny(made.mirror)}, sort_keys=False))
    command = ["git", "commit", "--quiet", "--all", "--message", "few items, made short"]
    subprocess.run(command, cwd=folder, env=made.environment, check=True)
    return made


def _shorten(items: Path) -> None:
    kept: dict[str, Any] = yaml.safe_load(ITEMS.read_text("utf-8"))
    for path in sorted(items.glob("*/*.yaml")):
        key = f"{path.parent.name}/{path.stem}"
        if key in kept:
            item = yaml.safe_load(path.read_text("utf-8"))
            item["scales"]["demo"] = kept[key]
            path.write_text(yaml.safe_dump(item, sort_keys=False, allow_unicode=True), encoding="utf-8")
        elif path.stem != "paper":
            path.unlink()


def _tiny(mirror: Path) -> dict[str, Any]:
    """Write idx files of noise below the mirror, and return their entry of the catalog."""
    random, files = np.random.default_rng(0), {}
    for part, count in TINY_IMAGES.items():
        images = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        for role, array in ((f"{part}_images", images), (f"{part}_labels", np.arange(count, dtype=np.uint8) % 10)):
            path = mirror / f"data/tiny/{role}.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            path.write_bytes(gzip.compress(head + array.tobytes(), mtime=0))
            files[role] = {"path": f"data/tiny/{role}.gz", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return {"title": "Noise in the form of digits", "num_classes": 10, "licence": "none", "citation": "none",
            "mirror": {"reader": "idx", "files": files}}  # fmt: skip
