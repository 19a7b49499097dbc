"""The page and the picture of the roofline."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from leaklab.records.files import write_bytes
from roofline.layers import Part

XTICKS, YTICKS = (2, 5, 10, 20, 50, 100, 200), (10, 20, 50, 100, 200)
COLOURS = ("#0b7a75", "#c1440e", "#5b4b9a", "#8a6d00")


Steps = Mapping[str, tuple[float, float]]
"""Network -> processor seconds of a step, compiled and by torch."""

OPENING = """
`PYTHONPATH=benchmarks .venv/bin/python -m roofline` made this page on {machine}. One thread of it does at most
{sgemm:.0f} GFLOP/s (sgemm, 1024 x 1024) and moves {copy:.0f} GB/s ({copied:.0f} MiB read and written, as much as a step
works on). A *compiled step* is one gradient of one model by `models/lanes`. *Share of sgemm* is the time of
matrix products of the same shapes, whose patches are there already, over the time that the step takes with everything;
the goal is 50 %."""

LEGEND = """
*A point is a layer in one direction: how much it does with each byte, and how fast. The roof is the lower one of
the two rates above. A convolution's point near the roof is bound by arithmetic; affine layers with small batches lie
left, where memory decides. Poolings, rectifiers and dropout multiply nothing: they are the rest of a step's time.*"""


def page(parts: Sequence[Part], steps: Steps, rates: Mapping[str, float], machine: str) -> str:
    """Return the page: a line for each network, then for each layer that multiplies."""
    text = [
        "# What bounds the steps of convolutional networks",
        OPENING.strip().format(machine=machine, **rates),
        "| network | us a step | GFLOP/s | share of sgemm | times torch's |",
        "| --- | --: | --: | --: | --: |",
    ]
    for case, (ours, theirs) in steps.items():
        own = [part for part in parts if part.case == case]
        flop, products = sum(part.flop for part in own), sum(part.product or 0.0 for part in own)
        rate, share = flop / ours / 1e9, products / ours
        text.append(f"| {case} | {1e6 * ours:,.0f} | {rate:.0f} | {share:.0%} | {theirs / ours:.2f} |")
    text += [
        "![Each layer's operations a second against its operations a byte, below the roof](roofline.png)",
        LEGEND.strip(),
        "| network | layer | direction | MFLOP | FLOP a byte | us | GFLOP/s | of the roof | share of sgemm |",
        "| --- | --- | --- | --: | --: | --: | --: | --: | --: |",
    ]
    for part in parts:
        row = [part.case.partition(",")[0], part.layer, part.direction]
        if part.product is None:
            row += ["-", "-", f"{1e6 * part.seconds:.0f}", "-", "-", "-"]
        else:
            rate, roof = part.flop / part.seconds / 1e9, roof_of(part, rates)
            row += [f"{part.flop / 1e6:.1f}", f"{part.flop / part.bytes:.0f}", f"{1e6 * part.seconds:.0f}"]
            row += [f"{rate:.0f}", f"{rate / roof:.0%}", f"{part.product / part.seconds:.0%}"]
        text.append(f"| {' | '.join(row)} |")
    return "\n\n".join(joined(text)) + "\n"


def joined(lines: Sequence[str]) -> list[str]:
    """Put the lines of a table together."""
    found: list[str] = []
    for line in lines:
        if line.startswith("|") and found and found[-1].startswith("|"):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def roof_of(part: Part, rates: Mapping[str, float]) -> float:
    """Return the most that a layer can reach, in GFLOP/s."""
    return min(rates["sgemm"], rates["copy"] * part.flop / part.bytes)


def draw(path: Path, parts: Sequence[Part], rates: Mapping[str, float]) -> None:
    """Draw the layers that multiply below the roof."""
    figure, axes = plt.subplots(figsize=(7.5, 4.6))
    products = [part for part in parts if part.product is not None]
    reach = pd.Series([part.flop / part.bytes for part in products])
    ends = [reach.min() / 2, rates["sgemm"] / rates["copy"], reach.max() * 2]
    axes.plot(ends, [min(rates["sgemm"], rates["copy"] * end) for end in ends], color="#444444", linewidth=1.5)
    axes.annotate("sgemm", (ends[2], rates["sgemm"]), ha="right", va="bottom", color="#444444", fontsize=9)
    for colour, case in zip(COLOURS, dict.fromkeys(part.case for part in products), strict=False):
        for marker, filled, direction in (("o", True, "forward"), ("s", False, "backward")):
            own = [part for part in products if part.case == case and part.direction == direction]
            axes.scatter(
                [part.flop / part.bytes for part in own], [part.flop / part.seconds / 1e9 for part in own],
                marker=marker, color=colour, facecolors=colour if filled else "none", s=42, linewidths=1.3,
                label=f"{case.partition(',')[0]}, {direction}", zorder=3,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="FLOP a byte", ylabel="GFLOP/s")
    axes.set_xticks(XTICKS, [f"{tick:g}" for tick in XTICKS])
    axes.set_yticks(YTICKS, [f"{tick:g}" for tick in YTICKS])
    axes.minorticks_off()
    axes.grid(which="both", color="#e4e4e4", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.tight_layout()
    content = BytesIO()
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    write_bytes(path, content.getvalue())
