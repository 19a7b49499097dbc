"""The report of a scale from a checkout: where the workflow left it, or built from the published results."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leaklab.items.items import Item, load_items, load_papers
from leaklab.planning.missing import Reasons, without_missing
from leaklab.planning.plan import build_plan, result_files
from leaklab.planning.run_records import inputs_of, lacked_data
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.report.site import site
from leaklab.report.site.pages import SiteData, absent_records
from leaklab.report.site.site_data import Sources, gather

CLAIMS = Path("config/papers/claims.csv")
PUBLISHED: Scale = "small"


@dataclass(frozen=True)
class Found:
    """A report.

    Attributes:
        page: its first page.
        absent_records: records of runs and data sets that its scale has and this checkout lacks; 0 for a report of
            the workflow.
    """

    page: Path
    absent_records: int = 0


def report_page(scale: Scale) -> Found:
    """Return the report that the workflow made, or build it from tables, figures and verdicts; nothing is run.

    Raises:
        UserError: this is no project, the scale has no judged results here, or all its runs are here and the workflow
            has yet to build the report.
    """
    items = load_items()
    folder = Path("results", scale)
    page = folder / "report/index.html"
    if page.is_file() and _of_workflow(folder):
        return Found(page)
    sources = _sources(scale)
    items = as_made(items, scale)
    plan = build_plan(items)
    absent = absent_records(plan, scale, plan.ready(scale))
    if not absent:
        raise UserError(f"no report of the results here yet: run `snakemake --cores 2 {page}`")
    _build(scale, items, sources, page.parent)
    return Found(page, absent)


def published_data(scale: Scale) -> SiteData:
    """Return what the results of a scale in this checkout show; nothing is run.

    Raises:
        UserError: this is no project, or the scale has no judged results here.
    """
    items, sources = load_items(), _sources(scale)
    with tempfile.TemporaryDirectory() as scratch:
        return gather(scale, as_made(items, scale), sources, Path(scratch))


def _sources(scale: Scale) -> Sources:
    folder = Path("results", scale)
    sources = Sources(folder / "comparison.csv", folder / "verdicts.json", CLAIMS, load_papers())
    if not (sources.comparison.is_file() and sources.verdicts.is_file()):
        page = folder / "report/index.html"
        raise UserError(f"no results of scale {scale} here: {_how_to_have_some(scale, page)}")
    return sources


def _how_to_have_some(scale: Scale, page: Path) -> str:
    published = f"; `leaklab report --scale {PUBLISHED}` shows the published ones" if scale != PUBLISHED else ""
    return f"`leaklab plan --scale {scale}` says what they cost, `snakemake --cores 2 {page}` makes them{published}"


def _of_workflow(folder: Path) -> bool:
    """Return whether the workflow built the report from the tables and figures that are here now."""
    record = folder / "report/run.json"
    if not record.is_file():
        return False
    read = inputs_of(record)
    shown = {path: value for path, value in read.items() if path.endswith((".csv", ".png", "verdicts.json"))}
    results = {Path(path): value for path, value in shown.items() if path.startswith(("results/", "figures/"))}
    return all(path.is_file() and sha256(path) == value for path, value in results.items() if "runs" not in path.parts)


def as_made(items: Mapping[str, Item], scale: Scale) -> dict[str, Item]:
    """Return the items as they were where their tables were made: without the data that could not be had there."""
    records = {key: result_files(item, scale)["table_record"] for key, item in items.items()}
    lacked: dict[str, Reasons] = {
        key: missing for key, path in records.items() if path.is_file() and (missing := lacked_data(path))
    }
    return without_missing(items, {scale: lacked})


def _build(scale: Scale, items: Mapping[str, Item], sources: Sources, folder: Path) -> None:
    """Build the site aside and put it in the place of the one before; a build that fails leaves that one alone."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made, before = Path(scratch, "made"), Path(scratch, "before")
        site.build(gather(scale, items, sources, Path(scratch, "drawings")), made)
        if folder.exists():
            folder.replace(before)
        made.replace(folder)
