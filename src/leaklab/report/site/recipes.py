"""How an item is made, what that takes, and where its settings, its code and the pages about it are."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from leaklab.items.items import Item, item_file
from leaklab.planning.estimate import cpu_seconds, datasets_of, source_of
from leaklab.planning.outputs import how_to_make, records_behind
from leaklab.planning.plan import Job, Plan
from leaklab.records import plugins
from leaklab.records.config import Scale

ATTACKS = Path("docs/attacks.md")
"""Its list says which page is about which attack."""
KNOWING = "docs/attacks-knowing.md"
TRAINING = "docs/training.md"
LISTED = re.compile(r"\]\((attacks-[a-z]+\.md)\):(.*?)(?=^\* |^$)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class DataSource:
    """A data set that an item reads: its name, and where it comes from."""

    name: str
    source: str


@dataclass(frozen=True)
class Recipe:
    """How to make an item, what that is expected to take, and where to read on.

    Attributes:
        command: makes it, typed as it stands.
        plan: shows the estimate beside what is already there.
        jobs: number of runs behind it.
        cpu_seconds: estimated time on one CPU core, at most.
        data: what the runs read.
        settings: the item's file in the repository; empty for none.
        code: files of its attacks and defenses in the repository.
        pages: of the documentation, that are about them.
    """

    command: str
    plan: str
    jobs: int
    cpu_seconds: float
    data: tuple[DataSource, ...] = ()
    settings: str = ""
    code: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def recipe_of(item: Item, scale: Scale, jobs: Sequence[Job]) -> Recipe:
    """Return how to make an item, with the plan's estimate for all its jobs, whether or not they were run here."""
    parts = {part for job in jobs for part in job.spec.executed_plugins()}
    return Recipe(
        command=how_to_make(item, scale),
        plan=f"leaklab plan {item.paper} {item.item} --scale {scale}",
        jobs=len(jobs),
        cpu_seconds=cpu_seconds(jobs),
        data=tuple(DataSource(name, source_of(name)) for name in datasets_of(jobs)),
        settings=item_file(item).as_posix(),
        code=tuple(sorted({file for part in parts if (file := _file_of(*part))})),
        pages=pages_about(parts),
    )


def _file_of(room: str, name: str) -> str:
    """Return the file of an attack or a defense of the house; empty for all else."""
    if room.partition("/")[0] not in ("attacks", "defenses") or name == "none":
        return ""
    file = plugins.find(room, name).file
    own = file.is_relative_to(plugins.PACKAGE_FOLDER)
    return (Path("src/leaklab") / file.relative_to(plugins.PACKAGE_FOLDER)).as_posix() if own else ""


def pages_about(parts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the pages about the attacks among plug-ins, room and name; about training where none attacks."""
    attacks = [part for part in parts if part[0].partition("/")[0] == "attacks"]
    listed = _listed(ATTACKS.absolute())
    found = {listed[name] for _, name in attacks if name in listed}
    if any(room == "attacks/adaptive" and name != "none" for room, name in attacks):
        found.add(KNOWING)
    return tuple(sorted(found)) if attacks else (TRAINING,)


@cache
def _listed(start: Path) -> dict[str, str]:
    """Return attack -> the page about it, as the list of their first page says; nothing outside of a checkout."""
    text = start.read_text(encoding="utf-8") if start.is_file() else ""
    return {name: f"docs/{page}" for page, names in LISTED.findall(text) for name in re.findall(r"`([\w-]+)`", names)}


def absent_records(plan: Plan, scale: Scale, items: Iterable[Item]) -> int:
    """Return how many records of runs and data sets behind some items are not in this checkout."""
    return sum(not path.is_file() for path in records_behind(plan, scale, items))
