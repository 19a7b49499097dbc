"""Edits of our own code, drawn by a seed, each of which a test of its room should find.

PYTHONPATH=benchmarks .venv/bin/python -m mutants             writes benchmarks/mutants.csv and benchmarks/mutants.md
PYTHONPATH=benchmarks .venv/bin/python -m mutants --quick     five of them; prints only
PYTHONPATH=benchmarks .venv/bin/python -m mutants --page      the page alone, from the table and mutants/reasons.yaml
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from leaklab.records.files import write_table, write_text
from mutants.bench import CHECKOUT, Bench, Trial, make_bench
from mutants.page import last_line, page, reasons, unexplained
from mutants.rooms import Mutant, drawn

TABLE = CHECKOUT / "benchmarks/mutants.csv"
MUTANTS, QUICK_MUTANTS, SEED, LIMIT = 40, 5, 34, 180.0


def main() -> None:
    """Try what was not tried yet, keep every outcome, print and write the page; exit with 1 if a gap has no reason."""
    parser = argparse.ArgumentParser("make mutants MUTANTS=", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, help=f"how many, {MUTANTS} or {QUICK_MUTANTS} when quick")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help="seconds of the processor that the tests of a mutant may take"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no further mutant after so many")
    parser.add_argument("--quick", action="store_true", help="few; prints only")
    parser.add_argument("--page", action="store_true", help="try none, make the page of what was found")
    parser.add_argument("--output", type=Path, help=f"table of outcomes, by default {TABLE.name} unless quick")
    options = parser.parse_args()
    wanted = options.mutants or (QUICK_MUTANTS if options.quick else MUTANTS)
    path = options.output or (None if options.quick else TABLE)
    earlier = known(path) if path else []
    found = earlier
    if not options.page:
        os.nice(10)
        with tempfile.TemporaryDirectory(prefix="mutants-") as top:
            bench = make_bench(Path(top) / "leaklab", options.limit)
            hunted = drawn(bench.folder, options.seed, wanted)
            until = time.monotonic() + 60 * options.minutes
            for tried in hunt(bench, hunted, earlier, until):
                keep(path, with_older(tried, earlier))
                found = tried
            found = confirmed(bench, found)
    keep(path, found)
    said = reasons()
    if path:
        write_text(path.with_suffix(".md"), page(found, said, options.seed))
    print(last_line(found, said))
    sys.exit(int(any(unexplained(trial, said) for trial in found)))


def hunt(bench: Bench, mutants: Sequence[Mutant], known: Sequence[Trial], until: float) -> Iterator[list[Trial]]:
    """Try mutants in turn, and yield all outcomes so far after each.

    What is known of a mutant stands while neither its module nor its tests have changed; else the test that killed it
    is asked first.
    """
    before = {trial.key: trial for trial in known}
    found: list[Trial] = []
    for number, mutant in enumerate(mutants, start=1):
        last = before.get(mutant.key)
        if last and last.state == bench.state(mutant):
            trial = replace(last, line=mutant.edit.line)
        elif time.monotonic() < until:
            trial = bench.tried(mutant, last.by if last and last.outcome == "killed" else "")
        else:
            continue
        found.append(trial)
        where = f"{trial.path}:{trial.line}"
        print(number, trial.outcome, f"{trial.seconds:.0f} s", where, trial.kind, trial.by, sep="\t", flush=True)
        yield found


def with_older(found: Sequence[Trial], earlier: Sequence[Trial]) -> list[Trial]:
    """Return the outcomes with those of an earlier hunt behind them that this one has not come to yet."""
    keys = {trial.key for trial in found}
    return [*found, *(trial for trial in earlier if trial.key not in keys)]


def confirmed(bench: Bench, found: Sequence[Trial]) -> list[Trial]:
    """Return the outcomes with those void whose test fails without a mutant too."""
    failing = bench.failing(trial.by for trial in found if trial.outcome == "killed")
    return [replace(trial, outcome="void") if trial.by in failing else trial for trial in found]


def known(path: Path) -> list[Trial]:
    """Return the outcomes that an earlier hunt kept."""
    if not path.is_file():
        return []
    lines: list[Mapping[str, str]] = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
    return [Trial(**{**line, "line": int(line["line"]), "seconds": float(line["seconds"])}) for line in lines]


def keep(path: Path | None, found: Sequence[Trial]) -> None:
    """Write all outcomes so far, so that they outlive a hunt that is stopped."""
    if path and found:
        write_table(path, pd.DataFrame([vars(trial) for trial in found]).round({"seconds": 1}))


if __name__ == "__main__":
    main()
