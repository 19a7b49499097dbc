"""Measure what bounds each layer of a compiled step, beside the processor's limits.

PYTHONPATH=benchmarks .venv/bin/python -m roofline            writes benchmarks/roofline.md, .csv and .png
PYTHONPATH=benchmarks .venv/bin/python -m roofline --quick    one network; prints only
"""

import argparse
import sys
from collections.abc import Sequence

import pandas as pd
import torch
from speed.command import FOLDER
from speed.costs import one_thread
from speed.machine import description
from speed.page import wrapped
from speed.peak import SIDE, best_rate

from leaklab.records.files import write_table, write_text
from roofline.layers import CASES, parts_of, whole_step
from roofline.page import draw, page

COPIED = 2**20
"""Bytes of what is copied; read and written, twice as many: the size of what a step of these networks works on."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser("roofline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one network; prints only")
    quick = parser.parse_args(arguments).quick
    machine = description()
    one_thread()
    cases = CASES[:1] if quick else CASES
    rates = limits()
    parts = [part for case in cases for part in parts_of(case)]
    steps = {case.title: whole_step(case) for case in cases}
    text = wrapped(page(parts, steps, rates, machine))
    sys.stdout.write(text)
    if not quick:
        write_table(FOLDER / "roofline.csv", pd.DataFrame([vars(part) for part in parts]))
        draw(FOLDER / "roofline.png", parts, rates)
        write_text(FOLDER / "roofline.md", text)


def limits() -> dict[str, float]:
    """Return what one thread does at most: ``sgemm`` in GFLOP/s, ``copy`` in GB/s of ``copied`` MiB."""
    square, source = torch.ones(SIDE, SIDE), torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    return {
        "sgemm": best_rate(lambda: square @ square, 2.0 * SIDE**3),
        "copy": best_rate(lambda: target.copy_(source), 2.0 * COPIED),
        "copied": 2 * COPIED / 2**20,
    }


if __name__ == "__main__":
    main()
