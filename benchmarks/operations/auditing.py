"""Seconds of ``leaklab audit`` for a gigabyte of run files: made up, recorded, audited, removed."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from operations.measures import Figure, Timed, timed

FILES, MEGABYTES = 64, 32
GIGABYTE = 1e9
RECORD = "results/small/lrp/table4.run.json"


def audit(checkout: Path, scratch: Path) -> list[Figure]:
    """Measure the audit of run files of some gigabytes, twice, beside that of next to nothing."""
    small = _project(checkout, scratch / "small", 1)
    large = _project(checkout, scratch / "large", MEGABYTES * 10**6)
    nothing = min((_audit(small) for _ in range(2)), key=lambda one: one.cpu)
    first, again = _audit(large), _audit(large)
    size = FILES * MEGABYTES * 10**6 / GIGABYTE
    for folder in (small, large):
        shutil.rmtree(folder)
    note = f"{FILES} run files of together {size:.2f} GB, in the page cache, less the audit of as many of 1 B"
    found = [Figure("audit", f"the audit itself, {FILES} records", nothing.wall, "s")]
    for name, one in (("first time", first), ("again", again)):
        found += [Figure("audit", f"wall time, {name}", (one.wall - nothing.wall) / size, "s/GB", note),
                  Figure("audit", f"processor time, {name}", (one.cpu - nothing.cpu) / size, "s/GB", note)]  # fmt: skip
    return found


def _audit(folder: Path) -> Timed:
    return timed("leaklab", "audit", folder=folder, PYTHONPATH=str(folder / "src"))


def _project(checkout: Path, folder: Path, size: int) -> Path:
    """Make a project with nothing but runs, each a file of random bytes and its record."""
    for name in ("src", "config", "workflow"):
        shutil.copytree(checkout / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "pyproject.toml", folder)
    (folder / ".snakemake").mkdir()  # where an audit keeps what it found, in a checkout in which something ran
    for number in range(FILES):
        path = folder / f"results/runs/train/made-up-{number}/weights.safetensors"
        path.parent.mkdir(parents=True)
        content = os.urandom(size)
        path.write_bytes(content)
        outputs = {str(path.relative_to(folder)): hashlib.sha256(content).hexdigest()}
        # a published record, so that this one has all fields
        record = json.loads((checkout / RECORD).read_text("utf-8"))
        record |= {"rule": "train_federated", "spec": {}, "code": "made-up", "inputs": {}, "outputs": outputs}
        path.with_name("run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder
