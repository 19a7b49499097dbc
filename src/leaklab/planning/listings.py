"""What ``leaklab items`` and ``leaklab plan`` print: a table, and the lines below it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leaklab.planning.adopted import Adopted
from leaklab.planning.estimate import Estimate, datasets_of, estimate, source_of
from leaklab.planning.names import named_item, named_paper
from leaklab.planning.outputs import jobs_behind
from leaklab.planning.plan import PREPARED, Job, build_plan
from leaklab.planning.state import how_to_make, states
from leaklab.records.config import SCALES, Scale
from leaklab.records.durations import duration
from leaklab.records.errors import UserError
from leaklab.records.ids import stage_of
from leaklab.records.items import Item, load_items

SYMBOLS = {"done": "[green]done[/]", "not run": "not run", "planned": "[dim]planned[/]"}
WIDEST = len("planned")
COLUMNS = ("stage", "jobs", "still to run", "client steps", "evaluations, at most", "CPU time, at most")
UNITS = "client step: one step of one client on one batch; evaluation: one of an attack's matching loss"
Words = Mapping[str, Sequence[str]]
"""Item -> the word of its state at each scale."""


@dataclass(frozen=True)
class Listing:
    """A table with lines below it.

    Attributes:
        table: of items, or of the stages of a plan.
        lines: below it.
        waiting_seconds: of a plan: estimated CPU seconds of what is still to run, at most.
    """

    table: Table
    lines: tuple[str, ...]
    waiting_seconds: float = 0.0


def list_items(paper: str | None = None, why: bool = False) -> Listing:
    """List the items of one paper or of all; a paper none of whose items runs takes one line, unless it is asked for.

    Args:
        paper: key of a paper, in any case; None for all.
        why: also say why planned items do not run yet.

    Raises:
        UserError: there is no such paper, or this is no project's root.
    """
    every = load_items()
    only = named_paper(paper, every) if paper else None
    found = {key: item for key, item in every.items() if only in (None, item.paper)}
    words = {key: [state.word for state in own.values()] for key, own in states(build_plan(found)).items()}
    folded = {} if only or why else _waiting_papers(found, words)
    shown = {key: item for key, item in found.items() if item.paper not in folded}
    table = _items_table(f"{len(found)} items", [*(key.replace("/", " ") for key in shown), *folded], why)
    for key, item in shown.items():
        reason = f"\n[dim]{escape(item.planned)}[/]" if why and item.planned else ""
        table.add_row(key.replace("/", " "), f"{escape(item.title)}{reason}", *(SYMBOLS[word] for word in words[key]))
    for key, count in folded.items():
        table.add_row(key, f"[dim]{count} items[/]", *[SYMBOLS["planned"]] * len(SCALES))
    hints = (f"leaklab items {key}: lists the items of {key}, none of which runs yet" for key in folded)
    return Listing(table, (*hints, _counts(found, words)))


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
    return f"{running} of {len(items)} items run; results here: {', '.join(done)}"


def list_plan(name: str, scale: Scale) -> Listing:
    """List the stages of an item's plan, or of a whole scale's, with their sum.

    Args:
        name: of the item, as a user may write it; empty for all items of the scale.
        scale: of the plan.

    Raises:
        UserError: there is no such item, or it does not run at the scale yet.
    """
    title, jobs, command = _planned_jobs(name, scale)
    adopted = Adopted.load()
    stages = list(dict.fromkeys(stage_of(job.spec) for job in jobs))
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, justify="right" if column != "stage" else "left")
    for stage in stages:
        own = estimate([job for job in jobs if stage_of(job.spec) == stage], adopted)
        table.add_row(stage, *_amounts(own), end_section=stage == stages[-1])
    total = estimate(jobs, adopted)
    table.add_row("total", *_amounts(total))
    units = [UNITS] if total.steps or total.evaluations else []
    data = (f"data {dataset}: {_where(dataset)}" for dataset in datasets_of(jobs))
    return Listing(table, (*units, *data, f"make it: {command}"), total.waiting_seconds)


def _planned_jobs(name: str, scale: Scale) -> tuple[str, list[Job], str]:
    """Return title, jobs and command of an item, or of all items of a scale where no name is given."""
    if not name:
        plan = build_plan(load_items())
        ready = plan.ready(scale)
        return f"scale {scale}: {len(ready)} items", jobs_behind(plan, scale, ready), f"snakemake --cores 2 {scale}"
    chosen = named_item(name, load_items())
    if chosen.planned:
        raise UserError(f"{chosen.key} does not run yet: {chosen.planned}")
    if scale in chosen.scales and chosen.scales[scale].planned:
        raise UserError(f"{chosen.key} does not run at scale {scale} yet: {chosen.scales[scale].planned}")
    plan = build_plan({chosen.key: chosen})
    jobs = plan.jobs_of(scale, chosen) if (scale, chosen.key) in plan.runs else []
    return f"{chosen.key} at scale {scale}: {chosen.title}", jobs, how_to_make(chosen, scale)


def _amounts(cost: Estimate) -> tuple[str, ...]:
    counts = (f"{count:,}" for count in (cost.jobs, cost.waiting, cost.steps, cost.evaluations))
    return (*counts, duration(cost.seconds))


def _where(dataset: str) -> str:
    if any(Path(f"{PREPARED / dataset}.{kind}").is_file() for kind in ("safetensors", "json")):
        return "here"
    return f"not here yet: {source_of(dataset)}"
