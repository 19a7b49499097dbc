"""Whether the rows of the papers are whole: found out from items, plans, results and verdicts.

A row is missing where it is nowhere; whole where it lacks nothing, all its printed numbers have a value, its items are
made with all their runs, and its plug-ins and data sets are used at the scale of the results; else it is there in part.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from leaklab.items.items import ITEMS, Item
from leaklab.planning.plan import Job, Plan
from leaklab.records.config import SCALES, Scale
from leaklab.report.judge.comparison import Comparison
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.numbers.words import NONE, gaps
from leaklab.report.site.coverage import CATALOGS, PRINTED, Coverage, Kind, Row, entry_of
from leaklab.report.site.pages import ItemPage, JudgedClaim, SiteData
from leaklab.specs.text import TEXT_FOLDER

Status = Literal["whole", "in part", "missing"]
STATUSES: tuple[Status, ...] = get_args(Status)
ALL, PART, APART = "●", "◐", "○"
"""How an item runs at a scale; ``NONE`` where it does not."""


@dataclass(frozen=True)
class Here:
    """What rows are held against.

    Attributes:
        scale: of the results.
        pages: item -> what its results show.
        plan: of all scales, of the items as they are where data are missing.
    """

    scale: Scale
    pages: Mapping[str, ItemPage]
    plan: Plan

    @classmethod
    def of(cls, data: SiteData, plan: Plan) -> "Here":
        """Return what results show, beside a plan."""
        return cls(data.scale, {f"{page.paper}/{page.item}": page for own in data.papers for page in own.items}, plan)

    @property
    def items(self) -> Mapping[str, Item]:
        """All items by their keys."""
        return self.plan.items

    @cached_property
    def used(self) -> Mapping[tuple[Scale, str], frozenset[str]]:
        """Scale and item -> the plug-ins and data sets of all its jobs, as rows name them."""
        return {
            (scale, key): frozenset(name for job in self.plan.jobs_of(scale, self.items[key]) for name in _parts(job))
            for scale, key in self.plan.runs
        }

    def users(self, name: str, scale: Scale, paper: str) -> list[str]:
        """Return the items of a paper that use a plug-in or data set at a scale."""
        return [
            key for (at, key), own in self.used.items() if (at, self.items[key].paper) == (scale, paper) and name in own
        ]

    def sign(self, key: str, scale: Scale) -> str:
        """Return how an item runs at a scale: all of it, in part, apart from the others, or not."""
        if (scale, key) not in self.plan.runs or (scale == self.scale and self.pages[key].state != "done"):
            return NONE
        change = self.items[key].scales[scale]
        if change.absent or change.missing:
            return PART
        return APART if change.apart else ALL


def _parts(job: Job) -> Iterator[str]:
    if job.dataset:
        texts = job.dataset.startswith(TEXT_FOLDER)
        yield f"{'texts' if texts else 'datasets'}/{job.dataset.removeprefix(TEXT_FOLDER)}"
    yield from (f"{room}/{name}" for room, name in job.spec.executed_plugins())


# What a row comes to.


@dataclass(frozen=True)
class Covered:
    """A row and what was found out about it.

    Attributes:
        row: it.
        paper: key of its paper.
        kind: what it is.
        scales: scale -> the sign of its items, or how many items of its paper use it.
        printed: its printed numbers.
        claims: of its items.
        stand_ins: what stood in for what.
        gaps: what is not there and can be counted, each with its reason.
    """

    row: Row
    paper: str
    kind: Kind
    scales: Mapping[Scale, str] = field(default_factory=dict)
    printed: tuple[Comparison, ...] = ()
    claims: tuple[JudgedClaim, ...] = ()
    stand_ins: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def measured(self) -> int:
        """How many of its printed numbers have a value."""
        return sum(one.value is not None for one in self.printed)

    @property
    def status(self) -> Status:
        """Whether it is whole."""
        if not self.row.where:
            return "missing"
        return "in part" if self.gaps or self.row.lacks else "whole"

    @property
    def doubt(self) -> str:
        """What of the row's own words fits no more; empty for nothing."""
        if self.status == "whole" and self.row.why:
            return "it is whole, so take its 'why' away"
        for name, words, stand in self.row.signs:
            if (words in _text(name)) != stand:
                return f"{name} {'no longer' if stand else 'now'} says '{words}': look whether the row is whole"
        return ""


def _text(name: str) -> str:
    """Return what stands in a file, or in an item's, in one line; nothing where there is no such file."""
    path = Path(name) if Path(name).suffix else ITEMS / f"{name}.yaml"
    return " ".join(path.read_text(encoding="utf-8").split()) if path.is_file() else ""


def covered(coverage: Coverage, here: Here) -> tuple[Covered, ...]:
    """Return every row with what was found out about it."""
    return tuple(_covered(paper, kind, row, here) for paper, kind, row in coverage)


def _covered(paper: str, kind: Kind, row: Row, here: Here) -> Covered:
    keys = [name for name in row.where if name in here.items]
    parts = [name for name in row.where if name not in here.items]
    printed = _printed(kind, row, [here.pages[key] for key in keys] or _of_paper(here, paper))
    own = [here.pages[key] for key in keys] if kind in PRINTED else []
    return Covered(
        row,
        paper,
        kind,
        scales={scale: _scale(here, keys, parts, scale, paper) for scale in SCALES} if row.where else {},
        printed=printed,
        claims=tuple({judged.claim.id: judged for page in own for judged in page.claims}.values()),
        stand_ins=tuple(
            dict.fromkeys([*(name for page in own for name in page.substitutes), *_for(parts, paper, here)])
        ),
        gaps=(*_without_value(printed), *_not_run(here, keys, kind, printed), *_unused(here, parts, paper)),
    )


def _of_paper(here: Here, paper: str) -> list[ItemPage]:
    return [page for page in here.pages.values() if page.paper == paper]


def _printed(kind: Kind, row: Row, pages: Iterable[ItemPage]) -> tuple[Comparison, ...]:
    """Return the printed numbers of a row: all of its items, or those that have its keys."""
    if not row.where or (kind not in PRINTED and not row.cells):
        return ()
    wanted = {key: value if isinstance(value, tuple) else (value,) for key, value in row.cells.items()}
    return tuple(
        one
        for page in pages
        for one in page.comparisons
        if all({**one.row, "metric": one.metric}.get(key) in values for key, values in wanted.items())
    )


def _scale(here: Here, keys: list[str], parts: list[str], scale: Scale, paper: str) -> str:
    """Return how the items of a row run at a scale; for parts that stand alone, how many items use them."""
    if not keys:
        return str(len({key for name in parts for key in here.users(name, scale, paper)}) or NONE)
    signs = {here.sign(key, scale) for key in keys}
    return signs.pop() if len(signs) == 1 else PART


def _without_value(printed: Iterable[Comparison]) -> tuple[str, ...]:
    """Return a sentence for each reason why printed numbers have no value, as tables say it."""
    lost = (one for one in printed if one.value is None)
    return gaps(ResultTable(tuple(ResultRow(o.paper, o.item, o.row, o.metric, None, note=o.reason) for o in lost)))


def _not_run(here: Here, keys: Iterable[str], kind: Kind, printed: Iterable[Comparison]) -> Iterator[str]:
    """Yield why items, or runs of theirs, are not there at the scale of the results and at that of the papers."""
    said = {one.reason for one in printed if one.value is None}
    for key in keys:
        name = key.partition("/")[2]
        if here.sign(key, here.scale) == NONE:
            yield f"{name} is not made at {here.scale}: {here.pages[key].reason}"
        for scale in dict.fromkeys((here.scale, SCALES[-1])) if kind in PRINTED else ():
            if (change := here.items[key].scales.get(scale)) is None:
                continue
            reasons = dict.fromkeys([change.planned, *change.absent.values(), *change.missing.values()])
            for reason in filter(None, reasons):
                if not any(reason in one for one in said):
                    yield f"{name} at {scale}: {reason}"


def _unused(here: Here, parts: Iterable[str], paper: str) -> Iterator[str]:
    """Yield what no item of the paper uses at the scale of the results."""
    for name in parts:
        if not here.users(name, here.scale, paper):
            where = [scale for scale in SCALES if here.users(name, scale, paper)]
            yield f"{name} runs at scale {' and '.join(where)} only" if where else f"no item uses {name}"


def _for(parts: Iterable[str], paper: str, here: Here) -> Iterator[str]:
    """Yield what stood in for plug-ins and data sets in the items of a paper."""
    said = dict.fromkeys(name for page in _of_paper(here, paper) for name in page.substitutes)
    for part in parts:
        room, _, own = part.rpartition("/")
        told = _told(part) if room in CATALOGS else ""
        for name in said:
            if own in name.partition(" in place of ")[2].split(", ") or name in told:
                yield name


def _told(name: str) -> str:
    """Return what sources of a data set lack of it, as results say it."""
    return " ".join(" ".join(one.substitute or "" for one in entry_of(name).sources).split())
