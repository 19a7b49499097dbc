"""The page, made of the tables alone."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from speed.page import markdown, wrapped

from leaklab.records.files import write_text
from paper_hours.cheaper import BF16, TF32
from paper_hours.cheaper import WAYS as WAYS_OF_STAGES
from paper_hours.hours import BANDWIDTH, EVERY, LAUNCH_SECONDS, PEAK, SHARE
from paper_hours.measured import slower

PAGE, TABLE, KINDS = "paper_hours.md", "paper_hours.csv", "paper_hours_kinds.csv"
MEASURED, WAYS = "paper_hours_measured.csv", "paper_hours_ways.csv"
HEAVIEST, KINDS_SHOWN, WORTH = 5, 12, 1.05
UNITS = {
    "train": "client steps", "attack": "evaluations", "attack-text": "evaluations of a sentence", "law": "evaluations",
    "landscape": "points", "projection": "steps of an image", "generator": "steps of a GAN",
}  # fmt: skip
HEADS = ["", "jobs", "units, at most", "PFLOP", "TB", "million launches", "h products", "h bytes", "h launches",
         "hours", "decided by", "hours, launches as measured", "thread hours by the plan"]  # fmt: skip
NOTES = {
    "lrp/table2": "It is ReXNet on ImageNet and ResNet-18 on CIFAR, and no two of its trainings are alike. Images of "
    "CIFAR in batches of 40 fit into the GPU's cache from one product to the next, which the bytes "
    "here do not know; ReXNet's at 224 pixels do not.",
    "lrp/table3": "GGL reads the order of 50 losses alone, so a rounding matters where two candidates are as good as "
    "equal. All its generations run: there is no early end.",
    "hyperfl/table2-imagenet": "Its adapters sit behind each block of a frozen ViT, so that nothing but the first "
    "block can be computed once. What is left are products that write the weights of attention down and read them "
    "back; an attention in one kernel does neither, and is not in these bounds.",
    "outpost/table4": "It prints matching losses, so the loss of the best point is to be taken again in float32, and "
    "bfloat16 is doubtful here: 1 - cos has a floor of a few roundings.",
    "outpost/table3": "L-BFGS in float64 reads its 100 pairs in each step, which is most of the bytes that are left. A "
    "start that matches or stagnates ends early, and the hours here are without it.",
}


def write_page(folder: Path) -> str:
    """Write the page from the tables of a folder, and return it."""
    text = page(*(pd.read_csv(folder / name, keep_default_na=False) for name in (TABLE, KINDS, MEASURED, WAYS)))
    write_text(folder / PAGE, text)
    return text


def page(table: pd.DataFrame, kinds: pd.DataFrame, measured: pd.DataFrame, ways: pd.DataFrame) -> str:
    """Return the page in Markdown."""
    rows = table.to_dict("records")
    whole = next(row for row in rows if (row["item"], row["stage"]) == (EVERY, EVERY))
    stages = [row for row in rows if row["item"] == EVERY and row["hours"] > 0 and row["stage"] != EVERY]
    items = [row for row in rows if row["stage"] == EVERY and row["item"] != EVERY]
    parts = [
        *_head(whole, len(kinds), slower(measured.to_dict("records"))),
        "## By stage",
        markdown(HEADS, [_line(f"{row['stage']} ({UNITS[str(row['stage'])]})", row) for row in [*_sorted(stages)]]
                 + [_line("**all**", whole)]),
        *_kinds(kinds),
        *_heaviest(ways),
        *_measured(measured),
        *_items(items),
        HOW,
    ]  # fmt: skip
    return wrapped("\n\n".join(parts) + "\n")


def _head(whole: dict[Any, Any], kinds: int, times: float) -> list[str]:
    return [
        "# Scale `paper` on one H100, on paper",
        "`PYTHONPATH=benchmarks .venv/bin/python -m paper_hours` made this page. It is arithmetic and no measurement: "
        f"a unit of each of {kinds:,} kinds of work (a client step, an evaluation of a loss, ...) was counted on "
        "tensors without numbers and multiplied by what the plan asks for.",
        f"**{whole['hours']:.0f} hours** of one H100 at most, each of {whole['jobs']:,} jobs counted once, if it "
        f"reaches {SHARE:.0%} of what its maker's data sheet says and a launch takes {LAUNCH_SECONDS * 1e6:.0f} "
        f"microseconds; **{whole['slow_hours']:,.0f} hours** if a launch takes {times:.1f} times as long, as was "
        "measured "
        f"(below). The plan has {whole['thread_hours']:,.0f} hours of a processor thread for the same.",
        f"Assumed of an H100 SXM: {PEAK['float32'] / 1e12:.0f} TFLOP/s in float32 and {PEAK['float64'] / 1e12:.0f} in "
        f"float64, both outside tensor cores, and {BANDWIDTH / 1e12:.2f} TB/s, as its maker states; {SHARE:.0%} of "
        "each. The hours of a kind are those of the largest of three bounds: its products, its bytes, its "
        "launches. Those of an item are the sum over its kinds, so they are more than each of its three columns.",
    ]


def _sorted(rows: Sequence[dict[Any, Any]]) -> list[dict[Any, Any]]:
    return sorted(rows, key=lambda row: -row["hours"])


def _line(name: str, row: dict[Any, Any]) -> list[str]:
    return [
        name, f"{row['jobs']:,}", f"{row['units']:,}", f"{row['flop'] / 1e15:,.3g}", f"{row['bytes'] / 1e12:,.3g}",
        f"{row['kernels'] / 1e6:,.3g}", *(f"{row[each]:.2f}" for each in ("flop_hours", "byte_hours", "launch_hours")),
        f"{row['hours']:.2f}", str(row["decided_by"]), f"{row['slow_hours']:.1f}", f"{row['thread_hours']:,.0f}",
    ]  # fmt: skip


def _kinds(kinds: pd.DataFrame) -> list[str]:
    heads = ["", "units", "GFLOP", "MB", "launches", "share a launch", "hours"]
    lines = [
        [row["kind"], f"{row['units']:,}", f"{row['flop'] / 1e9:.3g}", f"{row['bytes'] / 1e6:,.0f}",
         f"{row['kernels']:,.1f}", str(row["together"]), f"{row['hours']:.1f}"]
        for row in kinds.sort_values("hours", ascending=False).head(KINDS_SHOWN).to_dict("records")
    ]  # fmt: skip
    return [
        "## The heaviest kinds",
        f"What one unit asks for: a client step, or an evaluation of one image. All of them are in [{KINDS}]({KINDS}).",
        markdown(heads, lines),
    ]


def _items(items: Sequence[dict[Any, Any]]) -> list[str]:
    some = _sorted([row for row in items if row["hours"] > 0])
    none = sorted(str(row["item"]) for row in items if not row["hours"])
    return [
        "## Item by item",
        "Every job in each item that needs it, so the sum is more than the whole.",
        markdown(HEADS, [_line(str(row["item"]), row) for row in some]),
        f"No job of the following trains or searches, so that nothing of them is counted: {', '.join(none)}.",
    ]


def _heaviest(ways: pd.DataFrame) -> list[str]:
    parts = [
        "## The five heaviest, and what would make them ten times cheaper",
        "Of each item the jobs that no heavier one has. Ways add up from line to line; each is what the paper bounds "
        "would come to, none was tried. None changes a setting; the last two change roundings, so one seed, or one "
        "update, each way would have to show that the claims stay. With launches as slow as they were "
        "measured, replaying comes first: it is worth the difference between the two totals above.",
    ]
    for item, own in ways.groupby("item", sort=False):
        rows = own.to_dict("records")
        first = rows[0]
        same = f" ({first['same_jobs']} has the same jobs)" if first["same_jobs"] else ""
        lines = [_way(row, float(first["hours"])) for row in rows]
        parts += [f"### {item}", f"{first['jobs']} jobs on the GPU{same}: {first['hours']:.1f} hours. "
                  + _end(rows) + _small(first) + NOTES.get(str(item), ""), markdown(
            ["way", "h products", "h bytes", "h launches", "hours", "decided by", "times cheaper"], lines)]  # fmt: skip
    said = {way.name: way.what for own in WAYS_OF_STAGES.values() for way in own}
    return [*parts, "\n".join(f"* **{name}**: {what}." for name, what in said.items()), CORES]


def _way(row: dict[Any, Any], before: float) -> list[str]:
    bounds = [f"{row[each]:.2f}" for each in ("flop_hours", "byte_hours", "launch_hours")]
    return [row["way"], *bounds, f"{row['hours']:.2f}", row["decided_by"], f"{before / row['hours']:.1f}"]


def _end(rows: Sequence[dict[Any, Any]]) -> str:
    """Return in a sentence which ways do most, and whether a tenth is reached."""
    total = rows[0]["hours"] / rows[-1]["hours"]
    gains = {str(after["way"]): before["hours"] / after["hours"] for before, after in pairwise(rows)}
    best = sorted((way for way in gains if gains[way] > WORTH), key=lambda way: -gains[way])
    told = ", ".join(f"{way} ({gains[way]:.1f} times)" for way in best)
    end = "" if total >= 10 else f", short of ten; {rows[-1]['decided_by']} are left"
    return f"Taken in the order below, most is done by {told}: together {total:.1f} times{end}. "


def _small(row: dict[Any, Any]) -> str:
    if row["used_at_small"] == "":
        return ""
    return f"At scale `small` its searches took {float(row['used_at_small']):.0%} of the evaluations that they may. "


CORES = (
    f"Tensor cores do {TF32 / 1e12:.0f} TFLOP/s in TF32 and {BF16 / 1e12:.0f} in bfloat16 on dense matrices, half of "
    f"the maker's numbers, which are for sparse ones; again {SHARE:.0%} of it. Searches in float64 stay in float64, "
    "where L-BFGS goes on after float32 has stopped."
)


def _measured(measured: pd.DataFrame) -> list[str]:
    rows = measured.to_dict("records")
    lines = [
        [row["work"], f"{row['paper_milliseconds']:.3g}", row["decided_by"], f"{row['measured_milliseconds']:.3g}",
         f"{row['measured_over_paper']:.2f}", f"{row['measured_teraflop_per_second']:.3g}"] for row in rows
    ]  # fmt: skip
    times = slower(rows)
    return [
        "## Beside what was measured",
        "[gpu.csv](gpu.csv) has how many times as long as in the plan some kinds of work took on one H100, with fewer "
        "side by side than jobs have: one update, or four clients. The paper column is for as many. A unit is a client "
        "step, or an evaluation of one image, of the job of that kind that costs most by the plan.",
        markdown(["work", "ms on paper", "decided by", "ms measured", "measured / paper", "TFLOP/s measured"], lines),
        "\n".join(
            f"* {line}."
            for line in (
                f"**Launches decide**: measured takes {times:.1f} times as long in the median, "
                f"{times * LAUNCH_SECONDS * 1e6:.0f} microseconds a launch. The assumption is that a launch is all "
                "there is; "
                "likely, Python and automatic differentiation, which prepare each operation, numbers that a search "
                "reads "
                "back in each step, and sums in a fixed order (`records/streams.py::repeat_on_gpu`) take the rest",
                f"**Products decide**: of the largest networks, one is near {SHARE:.0%} of the peak and one above. "
                "ResNet-18 "
                "on 40 small images is far below: likely, its kernels are too small to fill the GPU",
                "**Bytes decide**: ReXNet is slower than its bytes; likely, convolutions of one channel each reach "
                "less of "
                "the bandwidth than assumed",
                "A kind of attack is measured on one job and stands for all: where batch or local steps differ, its "
                "factor "
                "says little (`attack/mlp/ig`, `attack/dlg-lenet/ig`). The plan's seconds are those of now, and "
                "factors were "
                "taken with those of then",
            )
        ),
    ]


HOW = """## How it was counted, and what is not

* The code that is counted is the clients' and the attackers' own: a round of `federated/client_work.py` in the form \
that a GPU trains, and the objectives of `attacks/matching` and `attacks/latents`. Forward, backward and the second \
backward are those that torch does; no factor stands for them.
* Tensors are fake (`FakeTensorMode`). What looks at numbers is counted on small real ones: steps of L-BFGS, of Adam \
and of a GAN, sentences, Gaussian generators of several components, and the defenses `soteria-probes` and \
`grad-defense`.
* Operations are those of matrix products and convolutions, by the formulas of torch's `FlopCounterMode`, but for the \
derivative of a convolution in groups, which torch has too high. Bytes are inputs and outputs of every operation, as \
if no cache held them: too many for small images. Elementwise work counts in bytes and launches.
* **Side by side**: models of one job that a GPU trains together, and up to ten updates of an attack, share launches. \
Residual networks and transformers train one model after the other. Jobs share nothing.
* **A client step** is one client on one batch; a training that goes on from a shorter one has the rest of the rounds \
only. Rounds of a training with a goal, and **evaluations**, are what the plan allows at most: a start that matches \
ends early, and further starts are then not tried. Searches without such a rule (GGL, signed Adam) take them all.
* **An evaluation** is one image: an update of B images counts B times. A local step that an attack simulates is part \
of it.
* OUTPOST's clients perturb some of their steps, by draws; the first two stand for all.
* What a hypernetwork makes once a round, and the classifier's steps, are spread over the steps of a round. A frozen \
front whose outputs are no larger than the image is computed once and left out: heads alone on a frozen backbone cost \
next to nothing here, while the plan takes them for steps of the whole network.
* Annealed searches, peels and laws are counted as gradient matching in float64 with L-BFGS, without their priors: a \
stand-in. Transforms that put a distance of their own in place of the attack's have the squared one.
* Not counted: tests of a training, its augmentation and server, captures, scores, checks, attacks by algebra, CMA-ES \
itself, fitted generators, tables. The plan has some hours of a thread for all of these but the first two.
* The last column is the plan's estimate for a thread; where it is small beside the hours here, the plan has too \
little: `vit` and `vit-adapted` have the time of a small transformer there, whatever their size."""
