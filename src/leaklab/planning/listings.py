"""What ``leaklab plan`` prints: a table, and the lines below it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from leaklab.items.items import Item
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.devices import Device, measured_device
from leaklab.planning.estimate import Estimate, datasets_of, estimate, source_of
from leaklab.planning.gpus import device_wanted, gpu_problem, no_gpu
from leaklab.planning.item_list import Listing, counted
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.names import is_paper_of_own, named_item, papers_of
from leaklab.planning.outputs import how_to_make, jobs_behind, not_set_up
from leaklab.planning.own_items import checked_items, own_items
from leaklab.planning.plan import PREPARED, Job, Plan, result_files
from leaklab.records.config import SCALES, Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError

COLUMNS = ("jobs", "to run", "longest", "likely", "at most", "memory", "disk")
GPU_COLUMN = "GPU time"


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
    plan = known_plan(wanted, (scale,))
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
    plan = known_plan({wanted.key: wanted} if isinstance(wanted, Item) else wanted, (scale,))
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
    plan = known_plan({item.key: item}, (scale,))
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
