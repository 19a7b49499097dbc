"""The page: exponents of all curves, why some are worse than linear, and what the plan says beside measurements."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from speed.page import markdown, wrapped

from growth.fits import Fit, fitted
from growth.works import Work, works
from leaklab.records.files import write_text

PAGE, TABLE, ITEMS, PROFILES = "growth.md", "growth.csv", "growth_items.csv", "growth_profiles.csv"
MEMORY_ABOVE = 1.01
"""Memory hardly scatters: what is so many times the constant is above it."""
LINEAR = 1.15
"""Above this an exponent is worse than linear, if its standard error and the end of the curve agree."""
WITHIN = 2.0
QUANTITIES = {
    "clients": "clients", "parameters": "parameters", "batch": "images of a batch", "steps": "local steps",
    "images": "updates or images", "replicates": "seeds, draws or starts",
}  # fmt: skip


def write_page(folder: Path) -> None:
    """Write the page from the tables of a folder."""
    points, items, profiles = (pd.read_csv(folder / name) for name in (TABLE, ITEMS, PROFILES))
    parts = [
        "# How time and memory grow",
        INTRO,
        *_curves(points),
        *_worse(points, profiles),
        *_items(items),
        HOW,
    ]
    write_text(folder / PAGE, wrapped("\n\n".join(parts) + "\n"))


def curves(points: pd.DataFrame) -> Iterator[tuple[Work, str, Fit, Fit]]:
    """Yield each curve that was measured: work, quantity, and the fits of its seconds and of its memory."""
    for work in works():
        for axis in work.axes:
            of_axis = points[(points["work"] == work.name) & (points["axis"] == axis)]
            if of_axis["value"].nunique() < 3:
                continue
            # what others did beside it can only have made a measurement larger
            best = of_axis.groupby("value").agg({"cpu_seconds": "min", "peak_mib": "min", "parameters": "first"})
            xs = [float(x) for x in (best["parameters"] if axis == "parameters" else best.index)]
            seconds, memory = best["cpu_seconds"].tolist(), best["peak_mib"].tolist()
            yield work, axis, fitted(xs, seconds), fitted(xs, memory, MEMORY_ABOVE)


def is_worse(fit: Fit) -> bool:
    """Tell whether a curve grows faster than what it is asked for."""
    return fit.exponent is not None and fit.exponent - fit.error > 1 and min(fit.exponent, fit.end) > LINEAR


def _curves(points: pd.DataFrame) -> list[str]:
    found = list(curves(points))
    parts = ["## Exponents"]
    for family in dict.fromkeys(work.family for work, *_ in found):
        lines = [
            [f"{work.name}", QUANTITIES[axis], *_seconds(seconds), *_memory(memory)]
            for work, axis, seconds, memory in found
            if work.family == family
        ]
        heads = ["work", "by", "constant, s", "exponent", "fitted from", "to", "off by", "constant, MiB", "exponent"]
        parts += [f"### {FAMILIES[family]}", markdown(heads, lines)]
    out = {quantity: why for work in works() for quantity, why in work.left_out.items()}
    parts.append("Left out: " + "; ".join(f"{QUANTITIES[quantity]}, as {why}" for quantity, why in out.items()) + ".")
    return parts


def _seconds(fit: Fit) -> tuple[str, ...]:
    if fit.exponent is None:
        return f"{fit.constant:.2f}", "0", "-", "-", f"{fit.residual - 1:.0%}"
    power = f"{'**' * is_worse(fit)}{fit.exponent:.2f} ± {fit.error:.2f}{'**' * is_worse(fit)}"
    return f"{fit.constant:.2f}", power, f"{fit.low:,.0f}", f"{fit.high:,.0f}", f"{fit.residual - 1:.0%}"


def _memory(fit: Fit) -> tuple[str, str]:
    return f"{fit.constant:,.0f}", "0" if fit.exponent is None else f"{fit.exponent:.2f}"


def _worse(points: pd.DataFrame, profiles: pd.DataFrame) -> list[str]:
    worse = [(work, axis, fit) for work, axis, fit, _ in curves(points) if is_worse(fit)]
    parts = ["## Worse than linear"]
    if not worse:
        return [*parts, "No curve is, beyond its error."]
    parts.append(
        "What takes the time at the largest point, with the calls and the milliseconds of a call there and at the "
        "point before it (`cProfile`, which slows small calls; libraries count for the function of ours that called "
        "them)."
    )
    for work, axis, fit in worse:
        own = profiles[(profiles["work"] == work.name) & (profiles["axis"] == axis)]
        parts.append(
            f"**{work.name}, by {QUANTITIES[axis]}**: {fit.exponent:.2f} over the fitted part, {fit.end:.2f} at its "
            f"end.{_reason(own)}"
        )
        if len(own):
            lines = [
                [row["function"], f"{row['share']:.0%}", f"{row['calls_before']:,} to {row['calls']:,}",
                 f"{row['milliseconds_before']:.3g} to {row['milliseconds']:.3g}"] for row in own.to_dict("records")
            ]  # fmt: skip
            parts.append(markdown(["function", "share", "calls", "ms a call"], lines))
    return parts


def _reason(own: pd.DataFrame) -> str:
    """Say of the dearest function whether it is called more often or takes longer."""
    if own.empty:
        return " Not profiled yet."
    step = own["value"].iloc[0] / own["value_before"].iloc[0]
    before, after = (float((own[f"calls{of}"] * own[f"milliseconds{of}"]).sum()) for of in ("_before", ""))
    first = own.iloc[0]
    often = first["calls"] / max(1, first["calls_before"])
    longer = first["milliseconds"] / first["milliseconds_before"] if first["milliseconds_before"] else float("nan")
    said = (
        f" For {step:g} times as much these functions take {after / before:.2g} times as long: `{first['function']}` "
        f"is called {often:.2g} times as often, and a call takes {longer:.2g} times as long."
    )
    if after / before < step**LINEAR:
        return f"{said} So the work itself is linear: what bends the curve is the scatter of its small points."
    return said


def _items(items: pd.DataFrame) -> list[str]:
    run = items[items["jobs"] > 0]
    ratios, memory = run["likely_seconds"] / run["measured_seconds"], run["likely_mib"] / run["measured_mib"]
    good = ((ratios < WITHIN) & (ratios > 1 / WITHIN)).sum()
    good_memory = ((memory < WITHIN) & (memory > 1 / WITHIN)).sum()
    amounts = ("jobs", "before_seconds", "most_seconds", "likely_seconds", "measured_seconds")
    lines = [
        [row["item"], *(f"{row[name]:,.0f}" for name in amounts),
         _off(row["likely_seconds"], row["measured_seconds"]), f"{row['likely_mib']:,.0f}",
         f"{row['measured_mib']:,.0f}"]
        for row in run.sort_values("measured_seconds", ascending=False).to_dict("records")
    ]  # fmt: skip
    outside = run[(ratios >= WITHIN) | (ratios <= 1 / WITHIN)]
    before = run["before_seconds"] / run["measured_seconds"]
    good_before = ((before < WITHIN) & (before > 1 / WITHIN)).sum()
    whole = run["likely_seconds"].sum() / run["measured_seconds"].sum()
    return [
        "## Every item of scale small",
        f"`results/small/costs.csv` has what each item took. Of {len(run)} items that have runs, the plan's likely "
        f"seconds are within a factor of {WITHIN:g} of those for {good} (before these curves: {good_before}), and its "
        f"memory for {good_memory}; all together it says {whole:.2f} times what was measured. What was measured has "
        "the item's table and figure in it, which the plan leaves out, and for runs from before jobs were forks the "
        "imports of each: by that, items of many small jobs are above the plan.",
        f"Outside: {', '.join(outside['item'])}." if len(outside) else "None is outside.",
        markdown(["item", "runs", "before, s", "at most, s", "likely, s", "measured, s", "likely / measured",
                  "likely, MiB", "measured, MiB"], lines),
    ]  # fmt: skip


def _off(said: float, was: float) -> str:
    ratio = said / was
    text = f"{ratio:.2f}"
    return text if 1 / WITHIN < ratio < WITHIN else f"**{text}**"


FAMILIES = {
    "training": "Training: a round of FedAvg",
    "capture": "Capture: what clients send",
    "exact": "Attacks that read exactly",
    "matching": "Attacks that match gradients",
    "prior": "Attacks with a public prior",
}
INTRO = (
    "Processor seconds and the most memory of a job, against what it is asked for: each point is a real job on noise "
    "of MNIST's shape (`works.py`), in a process of its own that has imported what steps import. A curve is a constant "
    "plus a power, fitted by least squares of logarithm against logarithm over the part above the constant; `off by` "
    "is the root mean square by which constant and power miss all points. Exponents in bold are worse than linear: by "
    "more than a standard error, and at the end of the curve too. 0: it does not grow within the range. "
    "`leaklab plan` predicts from these curves (`src/leaklab/planning/work.py`, `memory.py`), and "
    "`tests/benchmarks/test_growth.py` holds what it says of seven jobs against what they take, within a factor of two."
)
HOW = """## How it was measured

* `PYTHONPATH=benchmarks .venv/bin/python -m growth` adds what [growth.csv](growth.csv) lacks and writes this page; \
`--minutes 10` ends after so long, `--quick` tries the smallest points and prints them only.
* One thread; user and system time of the job's own work, imports of its plug-ins in it. The smaller of two runs \
counts where there are two, as others computed on the same machine; what takes longer than 8 s ran once.
* Training: two clients, batches of 32, 20 steps, but for the quantity that grows; by clients: batches of 4, one \
step. Captures: ten updates of one image. Attacks: two updates, five of batches of four for exact readings; searches \
make the evaluations that they are given, as noise is never matched.
* Parameters: an MLP of one hidden layer, from 1 to 12,579 units. Its memory in a training has the images in it."""
