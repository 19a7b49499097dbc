"""Drawings of deals on an item's page: who holds what, and printed numbers against the range over several deals."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leaklab.items.items import Item
from leaklab.planning.plan import Job
from leaklab.records import files
from leaklab.records.config import Scale
from leaklab.report.judge.comparison import Comparison
from leaklab.report.judge.terms import key_name, name_in_words
from leaklab.report.site.pages import Picture
from leaklab.report.site.publication import published_deal
from leaklab.specs.training import PartitionSpec

KEPT = Path(".snakemake/drawings")
DRAWN_BY, SOURCES = "leaklab.report.figures", ("partition_figure.py", "style.py")
DRAWN_WITH = ("matplotlib", "seaborn")
RANGES = "Printed numbers against the range over the draws of the partition"


def partition_pictures(scale: Scale, jobs: Sequence[Job]) -> tuple[Picture, ...]:
    """Return the drawings of who holds what in the deals among the jobs, where they were published."""
    deals = [(published_deal(scale, job.folder), job.spec) for job in jobs if isinstance(job.spec, PartitionSpec)]
    return tuple(
        Picture(
            path,
            alt=f"Who holds what: the labels that each client of the deal {_deal(spec)} trains on",
            caption=f"{name_in_words(spec.dataset)}, {_deal(spec)}",
        )
        for path, spec in deals
        if path.is_file()
    )


def _deal(spec: PartitionSpec) -> str:
    chosen = spec.partition
    facts = {**chosen.settings, "seed": chosen.seed}
    if chosen.validation:
        facts["set aside"] = f"{100 * chosen.validation:g} %"
    told = ", ".join(f"{key_name(key)} {value}" for key, value in facts.items())
    return f"{name_in_words(chosen.name)} ({told})"


def ranges(folder: Path, item: Item, comparisons: Sequence[Comparison]) -> list[Picture]:
    """Draw the printed numbers against the range over the draws of the partition, where there are draws.

    What was drawn of the same numbers by the same code is kept: to import what draws takes seconds.

    Args:
        folder: where the drawing is put.
        item: whose table is drawn.
        comparisons: of its numbers with the printed ones.
    """
    if item.table is None or all(row.draws_min is None for row in comparisons):
        return []
    path = folder / f"{item.paper}-{item.item}-draws.png"
    kept = KEPT / f"{_name(item, comparisons)}.png"
    if kept.is_file():
        files.write_bytes(path, kept.read_bytes())
    else:
        from leaklab.report.figures import partition_figure, style

        style.save(partition_figure.draw_ranges(comparisons, item.table, item.table.rows[0], RANGES), path)
        with suppress(OSError):  # of a folder that cannot be written to: nothing is kept
            files.write_bytes(kept, path.read_bytes())
    caption = (
        "Bar: range over the declared partition seeds. Tick: the table's own seed. Dot: the printed number, filled "
        "where it lies in the range, gray where there are no draws."
    )
    return [Picture(path, alt=RANGES, caption=caption)]


def _name(item: Item, comparisons: Sequence[Comparison]) -> str:
    """Return what stands for all that decides the bytes of a drawing."""
    assert item.table is not None
    parts: list[Any] = [item.table.model_dump_json(), list(comparisons), [version(name) for name in DRAWN_WITH]]
    parts += [resources.files(DRAWN_BY).joinpath(name).read_text(encoding="utf-8") for name in SOURCES]
    return hashlib.sha256(repr(parts).encode()).hexdigest()
