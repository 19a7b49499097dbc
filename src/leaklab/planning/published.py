"""Result files that are not what a checkout should hold: files without a record, and results that were lost."""

from collections.abc import Iterator
from pathlib import Path

from leaklab.planning import packing
from leaklab.planning.plan import Plan, result_files
from leaklab.records.config import SCALES
from leaklab.records.ledger import Ledger

JUDGEMENT = "judgement.run.json"
WRITTEN = "README.md"
"""Text about results, made with the report, whose record is not in git; a test makes it again and compares."""


def faults(plan: Plan, ledger: Ledger) -> list[str]:
    """Return a line for each result file without a record, for each that is missing, and for archives with faults."""
    packed = (line for scale in SCALES for line in packing.faults(plan.ready(scale), scale))
    return [*_unrecorded(plan, ledger), *_missing(plan, ledger), *packed]


def _unrecorded(plan: Plan, ledger: Ledger) -> Iterator[str]:
    known = {*ledger.makers, *(entry.path.as_posix() for entry in ledger.entries)}
    # the records of table and figure name what is in it
    known.update(str(packing.archive_of(item, scale)) for item in plan.items.values() for scale in SCALES)
    papers = sorted({item.paper for item in plan.items.values()})
    for folder in (Path(kind, scale) for kind in ("results", "figures") for scale in SCALES):
        for place in (folder, *(folder / paper for paper in papers)):
            for file in sorted((ledger.root / place).glob("*")):
                name = file.relative_to(ledger.root).as_posix()
                if file.is_file() and not file.name.startswith(".") and name not in known and file.name != WRITTEN:
                    yield f"{name}: no record says how it was made: delete it and run snakemake again"


def _missing(plan: Plan, ledger: Ledger) -> Iterator[str]:
    """A scale whose claims were judged has the files of all its items, and what its records name."""
    results = {f"{kind}/{scale}/" for kind in ("results", "figures") for scale in SCALES}
    named = {path for entry in ledger.entries for path in (*entry.inputs, *entry.outputs)}
    wanted = {path for path in named if any(path.startswith(place) for place in results)}
    for scale in SCALES:
        if (ledger.root / "results" / scale / JUDGEMENT).is_file():
            wanted.update(str(path) for item in plan.ready(scale) for path in result_files(item, scale).values())
    for path in sorted(wanted):
        if not (ledger.root / path).is_file():
            yield f"{path}: missing, although the results that belong to it are here: run snakemake again"
