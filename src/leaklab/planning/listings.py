"""What ``leaklab items`` and ``leaklab plan`` print: a table, and the lines below it."""

import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leaklab.items.items import Item, load_items
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import Device, measured_device
from leaklab.planning.estimate import Estimate, datasets_of, estimate, source_of
from leaklab.planning.gpus import device_wanted, gpu_problem, no_gpu
from leaklab.planning.names import is_paper_of_own, named_item, named_paper, papers_of
from leaklab.planning.outputs import State, how_to_make, jobs_behind, not_set_up, states
from leaklab.planning.own_items import FOLDER, PAPER, checked_items, own_files, own_items
from leaklab.planning.plan import PREPARED, Job, Plan, build_plan, result_files, set_up
from leaklab.records.config import SCALES, Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError

SYMBOLS = {"done": "[green]done[/]", "not run": "not run", "planned": "[dim]planned[/]"}
WIDEST = len("planned")
COLUMNS = ("jobs", "to run", "longest", "likely", "at most", "memory", "disk")
GPU_COLUMN = "GPU time"
LONGEST = 4000
"""Characters of a line that is refused: an argument may be a file's content, pasted in the place of its name."""
Words = Mapping[str, Sequence[str]]
"""Item -> the word of its state at each scale."""


@dataclass(frozen=True)
class Listing:
    """A table with lines below it.

    Attributes:
        table: of items, or of the stages of a plan.
        lines: below it.
        content: the same for programs.
        waiting_seconds: of a plan: estimated CPU seconds of what is still to run, at most.
    """

    table: Table
    lines: tuple[str, ...]
    content: Any
    waiting_seconds: float = 0.0


def list_items(paper: str | None = None, why: bool = False) -> Listing:
    """List the items of one paper or of all; a paper none of whose items runs takes one line, unless it is asked for.

    Args:
        paper: key of a paper, in any case; None for all.
        why: also say why planned items do not run yet.

    Raises:
        UserError: there is no such paper, or this is no project's root.
    """
    own = is_paper_of_own(paper or "")
    every = own_items() if own else load_items()
    only = named_paper(paper, every) if paper else None
    found = {key: item for key, item in every.items() if only in (None, item.paper)}
    known = states(set_up(found))
    words = {key: [state.word for state in own.values()] for key, own in known.items()}
    folded = {} if only or why else _waiting_papers(found, words)
    shown = {key: item for key, item in found.items() if item.paper not in folded}
    table = _items_table(counted(len(found), "item"), [*(key.replace("/", " ") for key in shown), *folded], why)
    for key, item in shown.items():
        reason = f"\n[dim]{escape(item.planned)}[/]" if why and item.planned else ""
        table.add_row(key.replace("/", " "), f"{escape(item.title)}{reason}", *(SYMBOLS[word] for word in words[key]))
    for key, count in folded.items():
        table.add_row(key, f"[dim]{counted(count, 'item')}[/]", *[SYMBOLS["planned"]] * len(SCALES))
    hints = tuple(f"leaklab items {key}: lists the items of {key}, none of which runs yet" for key in folded)
    if own_files() and not paper:
        hints = (*hints, f"leaklab items {PAPER}: lists your own, from {FOLDER}")
    return Listing(
        table, (*hints, _counts(found, words)), [_item_for_programs(found[key], known[key]) for key in found]
    )


def counted(number: int, word: str) -> str:
    """Return a number with its word: ``1 item``, ``2 items``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _item_for_programs(item: Item, known: Mapping[Scale, State]) -> dict[str, Any]:
    scales = {scale: {"state": state.word, "reason": state.reason} for scale, state in known.items()}
    return {"paper": item.paper, "item": item.item, "kind": item.kind, "title": item.title, "scales": scales}


def _items_table(title: str, names: Sequence[str], why: bool) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0))
    table.add_column("item", no_wrap=True, min_width=max(map(len, names)))
    table.add_column("title", no_wrap=not why, overflow="ellipsis", ratio=1)
    for scale in SCALES:
        table.add_column(scale, no_wrap=True, min_width=WIDEST)
    return table


def _waiting_papers(items: Mapping[str, Item], words: Words) -> dict[str, int]:
    """Return the papers none of whose items runs at any scale, with the number of their items."""
    counts = Counter(item.paper for item in items.values())
    running = {items[key].paper for key, own in words.items() if set(own) != {"planned"}}
    return {paper: count for paper, count in counts.items() if paper not in running}


def _counts(items: Mapping[str, Item], words: Words) -> str:
    running = sum(item.made for item in items.values())
    done = (f"{sum(own[k] == 'done' for own in words.values())} at {scale}" for k, scale in enumerate(SCALES))
    return f"{running} of {counted(len(items), 'item')} can be run; results here: {', '.join(done)}"


def list_plan(name: str, scale: Scale) -> Listing:
    """List the stages of an item's plan, or the items of a paper or of all, with their sum, each job once.

    Args:
        name: of the item or paper, as a user may write it; empty for all items of the scale.
        scale: of the plan.

    Raises:
        UserError: there is no such item or paper, or it does not run at the scale yet.
    """
    wanted = _wanted(name, scale)
    if isinstance(wanted, Item):
        return _item_plan(wanted, scale)
    plan = build_plan(wanted, (scale,))
    ready, paper = plan.ready(scale), name.strip().lower()
    if paper and not ready:
        raise UserError(_none_ready(paper, scale, plan, wanted))
    what = f"{paper} at scale {scale}" if paper else f"scale {scale}"
    command = _figures(ready, scale) if paper else f"snakemake --cores 2 {scale}"
    parts = {item.key.replace("/", " "): plan.jobs_of(scale, item) for item in ready}
    return _listing(f"{what}: {counted(len(ready), 'item')}", "item", parts, jobs_behind(plan, scale, ready), command)


def _none_ready(paper: str, scale: Scale, plan: Plan, items: Mapping[str, Item]) -> str:
    """Return what to ask for where a paper has no item that is made with a scale."""
    apart = [key.replace("/", " ") for key in items if (scale, key) in plan.runs]
    if apart:
        return f"the items of {paper} are made by name, and not with scale {scale}: name one of {', '.join(apart)}"
    others = [name for name in SCALES if any(name in item.scales for item in items.values())]
    return f"no item of {paper} runs at scale {scale}: they name {' and '.join(others) or 'no scale'}"


def planned_jobs(name: str, scale: Scale) -> list[Job]:
    """Return the jobs that ``list_plan`` adds up.

    Raises:
        UserError: see there.
    """
    return jobs_behind(*_asked(name, scale))


def planned_items(name: str, scale: Scale) -> list[Item]:
    """Return the items that ``list_plan`` adds up; see there."""
    return _asked(name, scale)[2]


def _asked(name: str, scale: Scale) -> tuple[Plan, Scale, list[Item]]:
    wanted = _wanted(name, scale)
    plan = build_plan({wanted.key: wanted} if isinstance(wanted, Item) else wanted, (scale,))
    items = [wanted] if isinstance(wanted, Item) else plan.ready(scale)
    return plan, scale, [item for item in items if (scale, item.key) in plan.runs]


def _wanted(name: str, scale: Scale) -> Item | dict[str, Item]:
    """Return the item that is named, or all items of the paper that is, or all."""
    paper = name.strip().lower()
    items = own_items() if is_paper_of_own(paper) else checked_items()
    if not paper or paper in papers_of(items):
        return {key: item for key, item in items.items() if paper in ("", item.paper)}
    item = named_item(name, items)
    if item.planned:
        raise UserError(f"{item.key} does not run yet: {item.planned}")
    if scale in item.scales and item.scales[scale].planned:
        raise UserError(f"{item.key} does not run at scale {scale} yet: {item.scales[scale].planned}")
    if scale not in item.scales:
        raise UserError(f"{item.key}: {not_set_up(item, scale)}")
    return item


def _item_plan(item: Item, scale: Scale) -> Listing:
    plan = build_plan({item.key: item}, (scale,))
    jobs = plan.jobs_of(scale, item) if (scale, item.key) in plan.runs else []
    stages = dict.fromkeys(job.spec.stage for job in jobs)
    parts = {stage: [job for job in jobs if job.spec.stage == stage] for stage in stages}
    return _listing(f"{item.key} at scale {scale}: {item.title}", "stage", parts, jobs, how_to_make(item, scale))


def _figures(items: Sequence[Item], scale: Scale) -> str:
    return " ".join(["snakemake --cores 2", *(str(result_files(item, scale)["png"]) for item in items)])


def _listing(title: str, of: str, parts: Mapping[str, Sequence[Job]], jobs: Sequence[Job], command: str) -> Listing:
    """Return the plan's table, a line for each part, with the sum over all jobs, which parts may share."""
    lock, device = CodeLock.load(), measured_device(device_wanted())
    gpu = device.kind == "cuda"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in (of, *COLUMNS, *([GPU_COLUMN] if gpu else [])):
        table.add_column(column, justify="left" if column == of else "right", no_wrap=True)
    costs = {part: estimate(own, lock, device) for part, own in parts.items()}
    for place, (part, cost) in enumerate(costs.items(), 1):
        table.add_row(part, *_amounts(cost, gpu), end_section=place == len(parts))
    total = estimate(jobs, lock, device)
    table.add_row("total", *_amounts(total, gpu))
    content = {
        "of": title.partition(":")[0],
        of + "s": [{of: part, **asdict(cost)} for part, cost in costs.items()],
        "total": asdict(total),
        "data": {dataset: _where(dataset) for dataset in datasets_of(jobs)},
        "command": command,
    }
    shared = ["a job that several items need is counted in each of them, and once in the total"] if of == "item" else []
    counts = [f"{total.steps:,} client steps, one of one client on one batch each"] if total.steps else []
    counts += [f"{total.evaluations:,} evaluations of attacks' matching losses, at most"] if total.evaluations else []
    counts += [f"long jobs are cut: {total.pieces:,} pieces in all"] if total.pieces > total.jobs else []
    counts += [f"CPU times and disk are estimates, at most if no search ends early; {_measured_on(device)}"]
    data = (f"data {dataset}: {_where(dataset)}" for dataset in datasets_of(jobs))
    counts += [f"{no_gpu(problem)}; jobs of a cluster ask on their nodes"] if gpu and (problem := gpu_problem()) else []
    return Listing(table, (*shared, *counts, *data, f"make it: {command}"), content, total.waiting_seconds)


def _amounts(cost: Estimate, gpu: bool) -> tuple[str, ...]:
    times = (duration(cost.longest_seconds), duration(cost.likely_seconds), duration(cost.seconds))
    sizes = (f"{cost.memory_mb / 1000:.0f} GB", f"{cost.disk_mb / 1000:.1f} GB")
    return f"{cost.jobs:,}", f"{cost.waiting:,}", *times, *sizes, *([duration(cost.gpu_seconds)] if gpu else [])


def _measured_on(device: Device) -> str:
    if device.factors:
        return f"as measured on {device.name} by leaklab calibrate"
    where = "taken for a GPU too" if device.kind == "cuda" else "as known here"
    return f"of one processor thread, {where}: leaklab calibrate measures your machine's"


def _where(dataset: str) -> str:
    if any(Path(f"{PREPARED / dataset}.{kind}").is_file() for kind in ("safetensors", "json")):
        return "here"
    return f"not here yet: {source_of(dataset)}"


# Text of others on a terminal: escape sequences are shown, not obeyed, and half a character does not end a command.


def printable(text: str) -> str:
    """Return a text with what cannot be printed written as Python would, so that it is seen."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    """Return a line for the user as ``printable`` has it, without the middle of one that nobody reads to its end."""
    line = printable(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def print_anything() -> None:
    """Let the standard streams show the number of a character that their encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
