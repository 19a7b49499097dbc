"""A no-op, a sign flip and a scaled copy in place of the defenses of each privacy item at scale demo.

PYTHONPATH=benchmarks .venv/bin/python -m controls                 writes benchmarks/controls.md
PYTHONPATH=benchmarks .venv/bin/python -m controls lrp/figure2     some items; prints only, or writes with --output
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import leaklab
from controls.chain import run_jobs
from controls.judging import Outcome, outcomes
from controls.page import page
from controls.substitution import CONTROLS, is_privacy_item, substituted
from leaklab.items.expand import expand
from leaklab.items.items import find_item, load_items
from leaklab.planning.plan import Plan
from leaklab.records.config import Scale
from leaklab.records.files import write_text

SCALE: Scale = "demo"
MINUTES = 30.0
FOLDER = Path(__file__).parent
PAGE, HERE, FOUND = FOLDER.with_suffix(".md"), "--here", Path("found.json")


def main() -> None:
    """Make the workspace, run everything there, write the page; exit 1 where a control is said to hide something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("items", nargs="*", metavar="PAPER/ITEM", help="these items alone; prints only")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="work there and keep what was run: a second call goes on"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="of processor time, after which no item is begun"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the page goes")
    parser.add_argument(HERE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        run_here(asked.items, asked.minutes)
        return
    with tempfile.TemporaryDirectory() as place:
        workspace = (asked.keep or Path(place)).resolve()
        prepare(workspace)
        command = [sys.executable, "-m", "controls", HERE, "--minutes", str(asked.minutes), *asked.items]
        path = os.pathsep.join(map(str, (workspace / "src", FOLDER.parent)))
        subprocess.run(command, cwd=workspace, env={**os.environ, "PYTHONPATH": path}, check=True)
        found = json.loads((workspace / FOUND).read_text(encoding="utf-8"))
    every = [Outcome(**line) for line in found["outcomes"]]
    text = page(every, found["left_out"], (found["jobs"], found["made"]), found["seconds"])
    if asked.output or not asked.items:
        write_text(asked.output or PAGE, text)
    sys.stdout.write(text)
    sys.exit(any(one.wrong for one in every))


def prepare(workspace: Path) -> None:
    """Copy the sources and the configuration, and put the controls among the defenses of the copy."""
    package = workspace / "src/leaklab"
    for source, target in ((Path(leaklab.__file__).parent, package), (Path("config"), workspace / "config")):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    for plugin in (FOLDER / "defenses").glob("*.py"):
        shutil.copy(plugin, package / "defenses")


def run_here(keys: Sequence[str], minutes: float) -> None:
    """Run the controls in the current folder and leave what came out in a file."""
    items, began = load_items(), time.process_time()
    chosen = [find_item(key, items) for key in keys] or list(items.values())
    found: list[Outcome] = []
    left_out: dict[str, str] = {}
    made, every = 0, set()
    for item in items.values():
        if SCALE not in item.scales or item.scales[SCALE].planned or not item.made:
            continue
        runs = expand(item, SCALE)
        if not is_privacy_item(runs):
            continue
        if item not in chosen:
            left_out[item.key] = "not tried in this call"
            continue
        if time.process_time() - began > 60 * minutes:
            left_out[item.key] = f"not begun: {minutes:g} minutes were over"
            continue
        for control in CONTROLS:
            trial = substituted(item, runs, control)
            if trial is None:
                left_out[item.key] = "no runs without defense at this scale"
                continue
            plan = Plan({item.key: item}, runs={(SCALE, item.key): list(trial.runs)})
            for run in trial.runs:
                assert run.spec is not None
                plan.add(run.spec)
            jobs = plan.jobs_of(SCALE, item)
            made += run_jobs(jobs)
            every |= {job.folder for job in jobs}
            came_out = list(outcomes(trial, SCALE))
            found += came_out
            if not came_out:
                left_out[item.key] = "it tells no protection"
        print(f"{item.key}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    content = {"outcomes": [asdict(one) for one in found], "left_out": left_out, "jobs": len(every), "made": made,
               "seconds": time.process_time() - began}  # fmt: skip
    write_text(FOUND, json.dumps(content))


if __name__ == "__main__":
    main()
