"""How long a plan takes, and the graph of all jobs, where everything is still to be made."""

import re
import shutil
import subprocess
from pathlib import Path

from operations.measures import Figure, timed

SCALE = "paper"
MIRROR = "LEAKLAB_MIRROR"


def plan(checkout: Path) -> list[Figure]:
    """Measure ``leaklab plan`` of scale paper."""
    done = timed("leaklab", "plan", "--scale", SCALE, folder=checkout)
    return _figures("plan", f"`leaklab plan --scale {SCALE}`", done.wall, done.cpu)


def graph(checkout: Path, scratch: Path) -> list[Figure]:
    """Measure ``snakemake --dry-run`` of scale paper in a fresh clone, where nothing is made yet."""
    folder = scratch / "graph"
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True, capture_output=True)
    source = {"PYTHONPATH": str(folder / "src")}
    done = timed("snakemake", "--dry-run", "--quiet", "rules", "--cores", "1", "--", SCALE, folder=folder, **source)
    shutil.rmtree(folder)
    jobs = re.search(r"^total +(\d+)", done.text, re.MULTILINE)
    note = f"{jobs[1]} jobs" if jobs else ""
    return _figures("graph", f"`snakemake --dry-run {SCALE}`", done.wall, done.cpu, note)


def _figures(section: str, what: str, wall: float, cpu: float, note: str = "") -> list[Figure]:
    return [Figure(section, what, wall, "s", note), Figure(section, f"{what}, processor time", cpu, "s", note)]
