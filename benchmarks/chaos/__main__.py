"""Hundreds of faults over all stages of the workflow, each followed by the plain command.

PYTHONPATH=benchmarks .venv/bin/python -m chaos              writes benchmarks/chaos.csv and benchmarks/operations.md
PYTHONPATH=benchmarks .venv/bin/python -m chaos --quick      some faults on one chain of jobs; prints only
"""

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from operations.page import write_page

from chaos.bench import Bench, Fault
from chaos.calls import Calls, nursery
from chaos.disks import why_not
from chaos.jobs import LAST, jobs_of, seconds_of
from chaos.waves import Wave, in_turn, last_waves, waves_of
from chaos.workspace import TINY, make_workspace
from leaklab.records.files import sha256, write_table

TABLE = Path(__file__).parents[1] / "chaos.csv"
FAULTS, QUICK_FAULTS, SEED = 300, 10, 13
TINY_FILE = f"data/prepared/{TINY}.safetensors"
EVERYTHING, QUICK = ("demo", TINY_FILE), ("results/demo/lrp/table1.csv", TINY_FILE)


def main() -> None:
    """Make the workspace, try the faults, print the table; exit with 1 if a fault did not survive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, help=f"at least so many, {FAULTS} or {QUICK_FAULTS} when quick")
    parser.add_argument("--quick", action="store_true", help="one chain of jobs; prints only")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--output", type=Path, help=f"table of all faults, by default {TABLE.name} unless quick")
    options = parser.parse_args()
    wanted = options.faults or (QUICK_FAULTS if options.quick else FAULTS)
    path = options.output or (None if options.quick else TABLE)
    found: list[Fault] = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as top:
        workspace = make_workspace(Path(top) / "leaklab")
        with nursery(workspace, Path(top) / "nursery") as calls:
            for faults in tried(calls, QUICK if options.quick else EVERYTHING, options.seed, wanted):
                found += faults
                keep(found, path)
                for fault in faults:
                    print(len(found), "ok" if fault.survived else "FAILED", *vars(fault).values(), sep="\t", flush=True)
    table = pd.DataFrame([vars(fault) for fault in found])
    print(summary(table).to_string(index=False))
    if path == TABLE:
        write_page()
    if reason := why_not(Path(tempfile.gettempdir())):
        print(f"no full disks and no read-only folders: {reason}")
    sys.exit(int(len(found) < wanted or not table["survived"].all()))


def keep(found: Sequence[Fault], path: Path | None) -> None:
    """Write all faults so far, so that what was found outlives a run that is stopped."""
    if path and found:
        write_table(path, pd.DataFrame([vars(fault) for fault in found]).round({"seconds": 2}))


def tried(calls: Calls, targets: Sequence[str], seed: int, wanted: int) -> Iterator[list[Fault]]:
    """Make everything once, then yield the faults of one wave after the other until there are enough."""
    chance = random.Random(seed)
    first = calls.plain(targets)
    if first.status:
        raise RuntimeError(f"the undisturbed run ended with {first.status}:\n{first.text[-4000:]}")
    bench = bench_of(calls)
    count = 0
    if targets is EVERYTHING:
        for later, waves in last_waves(bench, chance):
            bench.remove(later)
            for wave in waves:
                faults = attempt(wave)
                count += len(faults)
                yield faults
        bench.remove(job for job in bench.jobs if job.rule in LAST)
        bench = replace(bench, jobs=[job for job in bench.jobs if job.rule not in LAST])
    for wave in in_turn(waves_of(bench, chance)):
        if count >= wanted:
            break
        faults = attempt(wave)
        count += len(faults)
        yield faults


def attempt(wave: Wave) -> list[Fault]:
    """Try the faults of a wave; one that cannot be tried is told, and counts for nothing."""
    try:
        return wave()
    except (OSError, ValueError, LookupError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"a wave could not be tried: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return []


def bench_of(calls: Calls) -> Bench:
    """Return the workspace as it is now, as the reference."""
    folder = calls.workspace.folder
    jobs = jobs_of(folder)
    reference = {name: sha256(folder / name) for job in jobs for name in job.outputs}
    return Bench(calls, jobs, reference, seconds_of(jobs, calls.ends()))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each kind of fault and stage."""
    groups = table.groupby(["kind", "stage"], sort=True)
    return groups.agg(
        faults=("survived", "size"), seconds=("seconds", "mean"), survived=("survived", "sum"), lost=("lost", "sum"),
        wrong=("wrong", "sum"), tracebacks=("tracebacks", "sum"), interrupts=("interrupts", "sum"),
    ).reset_index()  # fmt: skip


if __name__ == "__main__":
    main()
