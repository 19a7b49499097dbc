"""One file of each job behind some items of a scale: what a scale's targets, records and counts are made of."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from leaklab.items.items import Item
from leaklab.planning.plan import PREPARED, SHOWN, Job, Plan, result_files
from leaklab.records.config import SCALES, Scale
from leaklab.records.files import read_json
from leaklab.records.record import canonical_json
from leaklab.specs.base import CapturedRound
from leaklab.specs.training import PartitionSpec


def jobs_behind(plan: Plan, scale: Scale, items: Iterable[Item]) -> list[Job]:
    """Return every job that one of the items needs, each once."""
    jobs = {job.folder: job for item in items for job in plan.jobs_of(scale, item)}
    return list(jobs.values())


def records_behind(plan: Plan, scale: Scale, items: Iterable[Item]) -> list[Path]:
    """Return the run records of everything that the items rest on, those of the data sets first."""
    jobs = jobs_behind(plan, scale, items)
    datasets = sorted({job.dataset for job in jobs if job.dataset})
    return [PREPARED / f"{dataset}.run.json" for dataset in datasets] + [job.folder / "run.json" for job in jobs]


def drawings_of_deals(jobs: Iterable[Job]) -> list[Path]:
    """Return a picture of who holds what for each kind of deal; deals that differ by their seed look alike."""
    pictures: dict[str, Path] = {}
    for job in jobs:
        if isinstance(job.spec, PartitionSpec):
            pictures.setdefault(canonical_json(job.spec.seedless()), job.folder / "partition.png")
    return list(pictures.values())


def targets_of_scale(plan: Plan, scale: Scale) -> list[Path]:
    """Return what a scale's target asks for: the tables and figures too, so that a lost one is made again."""
    shown = [result_files(item, scale)[name] for item in plan.ready(scale) for name in ("csv", "png")]
    folder = Path("results", scale)
    return [*shown, folder / "report/index.html", folder / "provenance/ro-crate-metadata.json"]


def outputs_of_scale(plan: Plan, scale: Scale) -> list[Path]:
    """Return one output of each job of a scale."""
    items, folder = plan.ready(scale), Path("results", scale)
    deals = drawings_of_deals(jobs_behind(plan, scale, items))
    told = [folder / name for name in ("comparison.csv", "costs.csv", "threat-models.csv", "provenance/audit.json")]
    return [*records_behind(plan, scale, items), *deals, *told, *targets_of_scale(plan, scale)]


def idle_defenses(jobs: Iterable[Job]) -> list[str]:
    """Return the defenses that changed no update in one of the captures among the jobs, as their records say."""
    found: dict[str, None] = {}
    for job in jobs:
        if isinstance(job.spec, CapturedRound) and _changed_nothing(job.folder / "run.json"):
            defense = job.spec.defense
            settings = ", ".join(f"{key} {value}" for key, value in defense.settings.items())
            found[f"{defense.name}{f' ({settings})' if settings else ''} on {job.spec.dataset}"] = None
    return list(found)


def nothing_done(idle: str) -> str:
    """Return what is said of an idle defense."""
    return f"defense {idle} does nothing: it changed no update, so it hides nothing"


def _changed_nothing(record: Path) -> bool:
    return record.is_file() and read_json(record).get("facts", {}).get("defense_changes_update") is False


# The state of an item at a scale, as ``leaklab items`` and the report show it.

Word = Literal["done", "not run", "planned"]


@dataclass(frozen=True)
class State:
    """Whether an item's result is here, and if not, why."""

    word: Word
    reason: str = ""


def state_of(plan: Plan, item: Item, scale: Scale, root: Path = Path()) -> State:
    """Return the item's state at a scale."""
    if item.planned:
        return State("planned", item.planned)
    if (scale, item.key) not in plan.runs:
        reason = item.scales[scale].planned if scale in item.scales else ""
        if missing := item.scales[scale].missing if scale in item.scales else {}:
            return State("not run", "; ".join(missing.values()))
        return State("planned", reason or not_set_up(item, scale))
    files = result_files(item, scale)
    if all((root / files[name]).is_file() for name in SHOWN):
        return State("done")
    return State("not run", how_to_make(item, scale))


def not_set_up(item: Item, scale: Scale) -> str:
    """Return what is said of an item at a scale that it does not name."""
    named = " or ".join(item.scales) or "none"
    return f"it is not set up for scale {scale}, but for {named}: name one of these, or add {scale}: {{}} to its scales"


def how_to_make(item: Item, scale: Scale) -> str:
    """Return the command that makes an item at a scale, as it can be typed."""
    return f"snakemake --cores 2 {result_files(item, scale)['csv']}"


def states(plan: Plan, root: Path = Path()) -> dict[str, dict[Scale, State]]:
    """Return item -> scale -> state."""
    return {key: {s: state_of(plan, item, s, root) for s in SCALES} for key, item in plan.items.items()}


# What a job made before is linked aside until the job has made it anew, whatever becomes of the job.

PLACE = Path(".snakemake/aside")


class Aside:
    """Links to the outputs that a job found when it began; none, while it works, where it found none."""

    def __init__(self, outputs: Iterable[object], place: Path = PLACE) -> None:
        """Name the folder of the links; it is there from ``take`` until ``put_back`` or ``drop``.

        Args:
            outputs: all files that the job makes.
            place: the folder for all jobs.
        """
        paths = [Path(str(path)) for path in outputs]
        self.kept = {path: _name(str(path)) for path in paths}
        self.folder = place / _name("\n".join(map(str, paths)))

    def take(self) -> None:
        """Link what is there; a job that was begun and never ended is put back first."""
        self.put_back()
        part = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for path, name in self.kept.items():
            if path.is_file():
                _link(path, part / name)
        part.rename(self.folder)

    def put_back(self) -> None:
        """Make the outputs what they were when the job began; nothing happens where none was begun."""
        if not self.folder.is_dir():
            return
        for path, name in self.kept.items():
            if not (self.folder / name).exists():
                path.unlink(missing_ok=True)
            elif not _same(path, self.folder / name):
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
                _link(self.folder / name, part)
                part.replace(path)
        self.drop()

    def remove_unmade(self) -> None:
        """Remove old outputs in whose place the job made none, so that Snakemake misses them."""
        for path, name in self.kept.items():
            if _same(path, self.folder / name):
                path.unlink()

    def drop(self) -> None:
        """Take the links away, all at once."""
        gone = self.folder.with_name(f"{self.folder.name}.{os.getpid()}.gone")
        with suppress(FileNotFoundError):
            self.folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _same(path: Path, kept: Path) -> bool:
    try:
        one, other = path.stat(), kept.stat()
    except FileNotFoundError:
        return False
    return (one.st_mtime_ns, one.st_size) == (other.st_mtime_ns, other.st_size)


def _link(path: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    try:
        os.link(path, copy)
    except OSError:  # another file system, or one that knows no links
        shutil.copy2(path, copy)
