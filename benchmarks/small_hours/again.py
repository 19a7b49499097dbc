"""One job, run by the code of two folders in turn: processor seconds of each, and whether their outputs are the same.

Every run is a process of its own that has imported what the call's fork server has, as the jobs of a call have.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speed.machine import description

from leaklab.records.files import sha256
from leaklab.specs.base import RUNS
from small_hours.recorded import RECORD, recorded

SOURCE = Path("src")
TICK = 0.01
"""Seconds that cannot be told from none."""
CHILD = """
import importlib, json, resource, runpy, sys
from leaklab import fork_server
for name in fork_server.IMPORTED:
    importlib.import_module(name)
if hasattr(fork_server, "keep_freed_memory"):
    fork_server.keep_freed_memory()
module, *sys.argv[1:] = sys.argv[1:]
def used():
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime
before = used()
sys.modules.pop(module, None)
runpy.run_module(module, run_name="__main__", alter_sys=True)
print(json.dumps(used() - before))
"""


def compared(job: str, before: Path, changed: Mapping[str, str], times: int, results: Path) -> dict[str, Any]:
    """Return the line of a job: its least seconds by either code, and whether all runs wrote the same bytes.

    Args:
        job: stage and name of a job with a record in the archives.
        before: folder of the code to compare with.
        changed: other numbers of its spec, as JSON.
        times: runs by each code.
        results: of the scale.
    """
    record = recorded(results)[f"{RUNS / job}/{RECORD}"]
    seconds: dict[Path, list[float]] = {before: [], SOURCE: []}
    written = set()
    for _ in range(times):
        for source, own in seconds.items():
            used, digests = _run(record, source, changed)
            own.append(used)
            written.add(digests)
    old, new = (min(own) for own in seconds.values())
    return {
        "job": job, "changed": " ".join(f"{key}={value}" for key, value in changed.items()), "runs": times,
        "seconds_before": round(old, 2), "seconds": round(new, 2), "times_faster": round(old / max(new, TICK), 2),
        "same_bytes": len(written) == 1,
        "commit_before": _commit(before), "commit": _commit(SOURCE), "machine": description(),
    }  # fmt: skip


def _run(record: Mapping[str, Any], source: Path, changed: Mapping[str, str]) -> tuple[float, tuple[str, ...]]:
    """Return the seconds of one run, and the digests of what it wrote."""
    words = list(record["argv"])
    place = words.index("--spec") + 1
    spec = json.loads(words[place])
    words[place] = json.dumps(spec | {key: json.loads(value) for key, value in changed.items()})
    with tempfile.TemporaryDirectory() as folder:
        first = words.index("--output") + 1
        for number in range(first, len(words)):
            name, _, path = words[number].partition("=")
            words[number] = f"{name}={folder}/{Path(path).name}"
        environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", CHILD, f"leaklab.steps.{record['rule']}", *words],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stderr.strip())
        files = sorted(path for path in Path(folder).iterdir() if path.is_file() and path.name != RECORD)
        return float(done.stdout.splitlines()[-1]), tuple(sha256(path) for path in files)


def _commit(source: Path) -> str:
    command = ["git", "-C", str(source), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
