"""How long a plan takes, and the graph of all jobs, where everything is still to be made."""

import re
import shutil
import subprocess
from pathlib import Path

from leaklab.items.items import load_items
from leaklab.planning.devices import FILE, Device, keep_measured, work_of
from leaklab.planning.plan import build_plan
from operations.measures import Figure, timed

SCALE, FASTER = "paper", 50
MIRROR = "LEAKLAB_MIRROR"


def plan(checkout: Path) -> list[Figure]:
    """Measure ``leaklab plan`` of scale paper."""
    done = timed("leaklab", "plan", "--scale", SCALE, folder=checkout)
    return _figures("plan", f"`leaklab plan --scale {SCALE}`", done.wall, done.cpu)


def graph(checkout: Path, scratch: Path) -> list[Figure]:
    """Measure ``snakemake --dry-run`` of scale paper in a fresh clone, where nothing is made yet.

    Once with the times of a processor thread, and once as if each kind of work were ``FASTER`` on a GPU, so that long
    jobs are cut into fewer pieces.
    """
    folder = scratch / "graph"
    subprocess.run(["git", "clone", "--quiet", str(checkout), str(folder)], check=True, capture_output=True)
    plan = build_plan(load_items(), [SCALE])
    specs = [job.spec for jobs in plan.jobs.values() for job in jobs.values()]
    work = set(filter(None, map(work_of, specs)))
    keep_measured(Device("cuda", "assumed", dict.fromkeys(work, 1 / FASTER)), folder / FILE)
    found = [
        *_graph(folder, "cpu", f"`snakemake --dry-run {SCALE}`"),
        *_graph(folder, "cuda", f"the same on a device {FASTER} times as fast (assumed)"),
    ]
    shutil.rmtree(folder)
    return found


def _graph(folder: Path, device: str, what: str) -> list[Figure]:
    command = ["snakemake", "--dry-run", "--quiet", "rules", "--cores", "1", "--config", f"device={device}"]
    done = timed(*command, "--", SCALE, folder=folder, PYTHONPATH=str(folder / "src"))
    jobs = re.search(r"^total +(\d+)", done.text, re.MULTILINE)
    return _figures("graph", what, done.wall, done.cpu, f"{jobs[1]} jobs" if jobs else "")


def _figures(section: str, what: str, wall: float, cpu: float, note: str = "") -> list[Figure]:
    return [Figure(section, what, wall, "s", note), Figure(section, f"{what}, processor time", cpu, "s", note)]
