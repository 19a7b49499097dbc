"""The same tasks as sleeps, run by Snakemake itself: what its scheduler adds to a schedule on paper."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from campaign.schedule import chains
from campaign.tasks import Task

SNAKEFILE = """
import json
TASKS = json.load(open("tasks.json"))

rule all:
    input: [f"done/{name}" for name in TASKS]

rule task:
    input: lambda wildcards: [f"done/{name}" for name in TASKS[wildcards.name]["needs"]]
    output: touch("done/{name}")
    priority: lambda wildcards: TASKS[wildcards.name]["rank"]
    wildcard_constraints: name="[0-9]+"
    params: seconds=lambda wildcards: TASKS[wildcards.name]["seconds"]
    shell: "sleep {params.seconds}"
"""


def rehearsed(tasks: Mapping[str, Task], workers: int, per_hour: float, ranked: bool) -> tuple[float, float]:
    """Return the seconds that Snakemake takes for all tasks, and those until its first one may begin.

    Args:
        tasks: by name.
        workers: tasks that run at once.
        per_hour: seconds of sleep for an hour of work.
        ranked: whether jobs have the priorities that the workflow gives them (``planning/devices.py``).
    """
    left = chains(tasks)
    numbers = {name: str(number) for number, name in enumerate(tasks)}
    content = {
        numbers[name]: {
            "seconds": round(task.seconds * per_hour / 3600, 4),
            "needs": [numbers[n] for n in task.needs],
            "rank": 1 + int(left[name] / 60) if ranked else 0,
        }
        for name, task in tasks.items()
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "Snakefile").write_text(SNAKEFILE, encoding="utf-8")
        (folder / "tasks.json").write_text(json.dumps(content), encoding="utf-8")
        began = time.time()
        command = [sys.executable, "-m", "snakemake", "--cores", str(workers), "--quiet", "all"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        ended = time.time()
        first = min(path.stat().st_mtime for path in (folder / "done").iterdir())
    return ended - began, first - began
