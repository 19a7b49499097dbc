"""What a paper's trainings take at a scale with the code here, beside the goal, the rest, and what is possible at most.

PYTHONPATH=benchmarks .venv/bin/python -m training_budget            writes benchmarks/training_budget.md
PYTHONPATH=benchmarks .venv/bin/python -m training_budget --print    prints only
"""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from speed.costs import one_thread
from speed.page import markdown, wrapped
from speed.processes import output

from leaklab.calibrate import GRAY, SHAPES
from leaklab.items.items import load_items
from leaklab.planning.plan import Plan, build_plan
from leaklab.records.files import read_table, write_text
from leaklab.records.record import canonical_json
from leaklab.specs.training import TrainSpec
from training_budget.kinds import Kind, kinds
from training_budget.ways import times_of

PAPER, SCALE, GOAL_HOURS, CORES = "hyperfl", "small", 3.0, 2
PAGE = Path("benchmarks/training_budget.md")
PEAK_SECONDS = 120.0
COSTS = Path(f"results/{SCALE}/costs.csv")
Row = dict[str, Any]


def main() -> None:
    """Measure every kind of training and every other way, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--print", action="store_true", help="write nothing")
    only_print = parser.parse_args().print
    one_thread()
    plan = build_plan(load_items(), (SCALE,))
    rates = output(Path(sys.executable), "speed.peak", limit=PEAK_SECONDS)
    rows = [measured(kind) for kind in kinds(trainings(plan, keys_of(plan)))]
    text = page(rows, rates, rest(plan), ways(plan))
    if not only_print:
        write_text(PAGE, text)
    sys.stdout.write(text)


def keys_of(plan: Plan) -> list[str]:
    """Return the paper's items."""
    return [key for scale, key in plan.runs if scale == SCALE and plan.items[key].paper == PAPER]


def trainings(plan: Plan, keys: Iterable[str]) -> list[TrainSpec]:
    """Return the trainings of some items, each once, those of data that cannot be had left out."""
    found: dict[str, TrainSpec] = {}
    for key in keys:
        absent = plan.items[key].scales[SCALE].missing
        for run in plan.runs[SCALE, key]:
            if isinstance(run.spec, TrainSpec) and run.spec.dataset not in absent and run.spec.dataset != "cinic10":
                found[canonical_json(run.spec)] = run.spec
    return list(found.values())


def measured(kind: Kind) -> Row:
    """Return a kind's line."""
    dataset, method, clients, batch = kind.names()
    seconds = kind.seconds_per_step()
    return {
        "dataset": dataset, "method": method, "clients": clients, "batch": batch, "client_steps": kind.steps,
        "milliseconds_per_step": seconds * 1e3, "minutes": seconds * kind.steps / 60,
        "minutes_of_further_seeds": seconds * kind.further_seeds / 60, "megaflop_per_step": kind.flop / 1e6,
        "gigaflop_per_second": kind.flop / seconds / 1e9,
    }  # fmt: skip


def rest(plan: Plan) -> list[tuple[str, float, float]]:
    """Return the items that the trainings of these kinds are not all of: published CPU minutes, longest first."""
    costs = read_table(COSTS).set_index("item")["cpu_seconds"]
    left, covered = [], set[str]()
    for key in sorted(keys_of(plan), key=lambda one: -len(plan.runs[SCALE, one])):
        own = {canonical_json(run.spec) for run in plan.runs[SCALE, key] if run.spec is not None}
        specs = [run.spec for run in plan.runs[SCALE, key] if run.spec is not None]
        known = sum(1 for kind in kinds(spec for spec in specs if isinstance(spec, TrainSpec)) for _ in kind.specs)
        if own - covered and known < len(specs):
            left.append((key, float(costs[key]) / 60, known / len(specs)))
        covered |= own
    return sorted(left, key=lambda one: -one[1])


def ways(plan: Plan) -> dict[str, dict[str, tuple[float, float]]]:
    """Return network -> way -> milliseconds of a gradient and its error."""
    found = {}
    for spec in trainings(plan, [f"{PAPER}/table1"]):
        shape = SHAPES.get(spec.dataset, GRAY)
        name = "x".join(str(side) for side in shape)
        if name not in found and spec.batch_size == 50:
            found[name] = times_of(spec.model, shape, spec.batch_size)
    return found


def page(
    rows: Sequence[Row], rates: Mapping[str, float], left: Sequence[tuple[str, float, float]],
    other: Mapping[str, Mapping[str, tuple[float, float]]],
) -> str:  # fmt: skip
    """Return the page in Markdown."""
    best = max(rates.values())
    hours = sum(row["minutes"] for row in rows) / 60
    further = sum(row["minutes_of_further_seeds"] for row in rows) / 60
    least = sum(row["megaflop_per_step"] * row["client_steps"] for row in rows) / 1e3 / best / 3600
    remaining = sum(minutes for _, minutes, _ in left) / 60
    heads = ["data set", "method", "clients", "batch", "client steps", "ms / step", "GFLOP/s", "of peak", "minutes"]
    lines = [[row["dataset"], row["method"], row["clients"], row["batch"], f"{row['client_steps']:,}",
              f"{row['milliseconds_per_step']:.2f}", f"{row['gigaflop_per_second']:.0f}",
              f"{row['gigaflop_per_second'] / best:.0%}", f"{row['minutes']:.1f}"] for row in rows]  # fmt: skip
    parts = [
        f"# What HyperFL's items take at scale `{SCALE}`",
        "`PYTHONPATH=benchmarks .venv/bin/python -m training_budget` made this page, on one thread. Each kind of "
        "training was run for a round on noise of its data set's shape, its steps counted. One thread does at most "
        f"{best:.0f} GFLOP/s (the better of a matrix product and a convolution, measured in the same run). The load of "
        f"the machine was {os.getloadavg()[-1]:.1f} in the last quarter of an hour.",
        f"The goal is {GOAL_HOURS:.0f} hours on {CORES} cores, {GOAL_HOURS * CORES:.0f} hours of one. The trainings "
        f"of networks from scratch come to **{hours:.1f}** hours, of which {further:.1f} are seeds after the first; at "
        f"the processor's peak they would take {least:.1f}. The items below that attack, check or train on a backbone "
        f"had **{remaining:.1f}** hours when they were published, with what they share counted in each.",
        "## Trainings from scratch",
        markdown(heads, lines),
        "## Published cost of what attacks, checks and trains on backbones",
        markdown(["item", "CPU minutes", "share of its jobs that are trainings from scratch"],
                 [[key, f"{minutes:.0f}", f"{share:.0%}"] for key, minutes, share in left]),
        "## Other ways to a network's gradient",
        "Milliseconds of one client's gradient, six clients one after the other or together; the error is relative to "
        "the way in use.",
        markdown(["way", *other, "largest error"], [
            [way, *(f"{other[shape][way][0]:.2f}" for shape in other),
             f"{max(other[shape][way][1] for shape in other):.0e}"]
            for way in next(iter(other.values()))
        ]),
    ]  # fmt: skip
    return wrapped("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
