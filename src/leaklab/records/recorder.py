"""``run.json``: who made a file, from what, with which code, at which cost."""

import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from leaklab.records.files import sha256, write_json

CODE_PATHS = ("src", "workflow", "config", "Snakefile", "pyproject.toml")
PACKAGES = ("leaklab", "numpy", "torch", "torchvision", "snakemake", "lpips", "torchmetrics", "scikit-learn",
            "scikit-image", "pandas")  # fmt: skip
FORMAT = 1


@dataclass
class Recorder:
    """Collects the facts of one execution and writes them beside its outputs.

    Attributes:
        rule: name of the rule.
        code: digest of the code that the step imports (``records/code.py``).
        facts: what the step itself wants to be known (counts, resolved settings, substitutes).
    """

    rule: str
    code: str = ""
    device: str = "cpu"
    facts: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.time)

    def finish(
        self,
        record: Path,
        spec: Mapping[str, Any],
        inputs: Mapping[str, list[Path]],
        outputs: Mapping[str, Path],
    ) -> None:
        """Hash the files and write the record."""
        write_json(record, {
            "format": FORMAT,
            "rule": self.rule,
            "spec": spec,
            "code": self.code,
            **git_state(),
            "argv": sys.argv[1:],
            "device": self.device,
            "device_name": _device_name(self.device),
            "driver": driver(self.device),
            "facts": self.facts,
            "inputs": {str(path): sha256(path) for paths in inputs.values() for path in paths},
            "outputs": {str(path): sha256(path) for path in outputs.values()},
            "started": datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds"),
            "wall_seconds": round(time.time() - self.started, 2),
            "cpu_seconds": round(time.process_time(), 2),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            "slurm_job": os.environ.get("SLURM_JOB_ID"),
            "platform": platform.platform(),
            "packages": _versions(),
        })  # fmt: skip


def git_state() -> dict[str, Any]:
    """Return the commit and whether code or configuration differ from it; nulls outside a git checkout."""
    commit = _git("rev-parse", "HEAD")
    changes = _git("--no-optional-locks", "status", "--porcelain", "--", *CODE_PATHS)
    return {"commit": commit or None, "dirty": bool(changes) if commit else None}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def driver(device: str, told: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the version of a GPU's driver; None on a processor, or where the system does not tell."""
    if device != "cuda" or not told.is_file():
        return None
    found = re.search(r"\b\d+\.\d+(\.\d+)*\b", told.read_text(encoding="utf-8", errors="replace"))
    return found[0] if found else None


def _device_name(device: str) -> str:
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return platform.processor() or platform.machine()
