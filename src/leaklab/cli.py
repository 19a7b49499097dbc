"""The ``leaklab`` command: look at items, plans and provenance. Work itself is done by ``snakemake``."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.text_specs import TEXT_FOLDER

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
out = Console(highlight=False, soft_wrap=True)
SYMBOLS = {"done": "[green]done[/]", "not run": "not run", "planned": "[dim]planned[/]"}
ScaleOption = Annotated[str, typer.Option(help=f"one of {', '.join(SCALES)}")]


def main() -> None:
    """Run the command; a user's mistake is one line and exit status 1."""
    try:
        app()
    except UserError as error:
        sys.exit(f"leaklab: {error}")


@app.command()
def items(why: Annotated[bool, typer.Option(help="also say why planned items do not run yet")] = False) -> None:
    """List all tables, figures, theorems and algorithms with their state at each scale."""
    from leaklab.planning.plan import build_plan
    from leaklab.planning.state import states
    from leaklab.records.items import load_items

    found = load_items()
    table = Table(title=f"{len(found)} items", title_justify="left", box=SIMPLE_HEAD, expand=True)
    table.add_column("item", no_wrap=True, min_width=max(map(len, found)))
    table.add_column("title", no_wrap=not why, overflow="ellipsis", ratio=1)
    for scale in SCALES:
        table.add_column(scale, no_wrap=True, min_width=len("planned"))
    for key, by_scale in states(build_plan(found)).items():
        reason = f"\n[dim]{escape(found[key].planned)}[/]" if why and found[key].planned else ""
        words = [SYMBOLS[by_scale[scale].word] for scale in SCALES]
        table.add_row(key.replace("/", " "), f"{escape(found[key].title)}{reason}", *words)
    Console(highlight=False).print(table)


@app.command()
def plan(item: list[str], scale: ScaleOption = "small") -> None:
    """Show what an item needs: jobs, steps, estimated cost, and what is missing."""
    from leaklab.planning.plan import build_plan, result_files
    from leaklab.planning.resources import cost
    from leaklab.records.ids import stage_of
    from leaklab.records.items import find_item, load_items

    chosen = find_item(" ".join(item), load_items())
    level = _scale(scale)
    if chosen.planned:
        raise UserError(f"{chosen.key} does not run yet: {chosen.planned}")
    if level in chosen.scales and chosen.scales[level].planned:
        raise UserError(f"{chosen.key} does not run at scale {level} yet: {chosen.scales[level].planned}")
    every = build_plan({chosen.key: chosen})
    jobs = every.jobs_of(level, chosen) if (level, chosen.key) in every.runs else []
    table = Table(title=f"{chosen.key} at scale {level}: {chosen.title}", title_justify="left", box=SIMPLE_HEAD)
    for column in ("stage", "jobs", "still to run", "client steps", "evaluations, at most", "CPU minutes, at most"):
        table.add_column(column, justify="right" if column != "stage" else "left")
    for stage in dict.fromkeys(stage_of(job.spec) for job in jobs):
        group = [job for job in jobs if stage_of(job.spec) == stage]
        costs = [cost(job.spec) for job in group]
        missing = sum(not (job.folder / "run.json").is_file() for job in group)
        table.add_row(
            stage,
            str(len(group)),
            str(missing),
            f"{sum(c.steps for c in costs):,}",
            f"{sum(c.evaluations for c in costs):,}",
            f"{sum(c.seconds for c in costs) / 60:.1f}",
        )
    out.print(table)
    for dataset in sorted({job.dataset for job in jobs if job.dataset}):
        out.print(f"data {dataset}: {_where(dataset)}")
    out.print(f"make it: snakemake --cores 2 {result_files(chosen, level)['csv']}")


@app.command()
def trace(file: str) -> None:
    """Print the chain from a result or figure back to the checksums of its raw data."""
    from leaklab.records.ledger import Ledger

    ledger = Ledger.scan()
    name = Path(file).as_posix().removeprefix("./")
    ledger.maker(name)
    shown: set[Path] = set()
    for depth, path, entry in ledger.chain(name):
        if entry is None:
            out.print(f"{'  ' * depth}{path}  (an input of this repository)")
            continue
        commit = (entry.content.get("commit") or "no commit")[:10] + ("+changes" if entry.content.get("dirty") else "")
        digest = entry.outputs[path][:16]
        out.print(f"{'  ' * depth}{path}  sha256 {digest}  {entry.rule} at {commit}, code {entry.content['code']}")
        for source in entry.content["facts"].get("sources", []) if entry.path not in shown else []:
            out.print(
                f"{'  ' * (depth + 1)}{source['path']}  sha256 {source['sha256']}  (raw data, {source['source']})"
            )
        shown.add(entry.path)


@app.command()
def audit() -> None:
    """Recompute every recorded hash; exit 1 and name the file if one link of the chain is broken."""
    from leaklab.planning import published
    from leaklab.planning.adopted import Adopted
    from leaklab.planning.audit import audit as check
    from leaklab.planning.plan import build_plan
    from leaklab.records.items import load_items
    from leaklab.records.ledger import Ledger

    ledger = Ledger.scan()
    if not ledger.entries:
        raise UserError("audit failed: no run record here: run it in the root folder of a project that has results")
    result = check(ledger)
    unfit = Adopted.load().faults(ledger)
    lost = published.faults(build_plan(load_items()), ledger)
    for line in [*result.breaks, *result.stale, *lost, *unfit]:
        out.print(line)
    if result.absent:
        places = Counter(str(Path(path).parent.parent) for path in result.absent)
        where = ", ".join(f"{count} below {place}" for place, count in places.most_common())
        out.print(f"not in this checkout, so not checked: {where} (`dvc pull` or snakemake brings them)")
    if result.adopted:
        out.print(f"{len(result.adopted)} records adopted on the evidence of {len(result.evidence)} runs")
    verdict = f"{result.records} records, {result.files} files checked"
    if result.breaks or result.stale or lost or unfit:
        raise UserError(
            f"audit failed: {len(result.breaks)} changed files, {len(result.stale)} stale records, "
            f"{len(lost)} files missing or without a record, {len(unfit)} faults of adoptions; {verdict}"
        )
    out.print(f"audit passed: {verdict}")


@app.command()
def adopt(
    cores: Annotated[int, typer.Option(min=1, help="how many jobs to repeat side by side")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="only show what would be repeated")] = False,
) -> None:
    """Show that the code here makes what older code made: repeat a sample of the stale runs and compare the bytes.

    The cheapest run of every stage, plug-in, renderer and reader is repeated in a scratch folder. If all bytes are
    equal, results/adopted.json records that the code stands for the older one, and nothing has to be run again; one
    differing byte adopts nothing. Commit the code first, and the file afterwards.
    """
    from leaklab.planning import adopt as adoption
    from leaklab.planning.adopted import Adopted
    from leaklab.planning.plan import build_plan
    from leaklab.planning.sample import Survey, choose, seconds_of
    from leaklab.records.config import Config, parse, read_yaml
    from leaklab.records.items import load_items
    from leaklab.records.ledger import Ledger
    from leaklab.records.provenance import git_state

    config = parse(Config, read_yaml(Path("config/config.yaml")), "config/config.yaml")
    survey = Survey(build_plan(load_items()), Ledger.scan(), Adopted.load(), config.device)
    git = git_state()
    if not dry_run and (git["dirty"] or not git["commit"]):
        raise UserError("adopt: commit the code first: evidence names the commit that it speaks for")
    if not survey.stale:
        out.print("nothing to adopt: every record is of the code here, or of code that it stands for")
        return
    sample = choose(survey.stale)
    for one in sample.runs:
        out.print(f"{one.seconds / 60:6.1f} min  {one.made.rule}  {one.entry.path}  ({', '.join(one.parts[1:])})")
    minutes = seconds_of(sample.runs) / 60
    out.print(f"{len(survey.stale)} stale records; {len(sample.runs)} repeated, {minutes:.1f} core minutes estimated")
    if not dry_run and sample.runs:
        found = adoption.repeat(sample, survey, git["commit"], cores)
        adoption.record(found)
        out.print(adoption.words(found))
    for (made, code), why in sample.uncovered.items():
        out.print(f"stays stale: {made.rule} by code {code}: {why}: make one such run with the older code first")


@app.command()
def report(scale: ScaleOption = "demo") -> None:
    """Print where the report of a scale is, or how to make it."""
    page = Path(f"results/{_scale(scale)}/report/index.html")
    if not page.is_file():
        raise UserError(f"no report yet: run `snakemake --cores 2 {page}`")
    out.print(f"report: {page.resolve()}")


@app.command()
def schema() -> None:
    """Write the JSON schemas of the YAML files."""
    from leaklab.planning.schema import write_schemas

    for path in write_schemas():
        out.print(str(path))


def _where(dataset: str) -> str:
    from leaklab.data.catalog import find_entry, load_catalog
    from leaklab.data.text.catalog import find_text

    if any(Path(f"data/prepared/{dataset}.{kind}").is_file() for kind in ("safetensors", "json")):
        return "here"
    name = dataset.removeprefix(TEXT_FOLDER)
    entry = find_entry(name, load_catalog()) if name == dataset else find_text(name)
    if entry.embedded:
        return "not here yet: comes with the installed packages"
    if not entry.official:
        return "not here yet: comes from LEAKLAB_MIRROR only"
    return "not here yet: fetched from LEAKLAB_MIRROR or the network"


def _scale(name: str) -> Scale:
    for scale in SCALES:
        if name == scale:
            return scale
    raise UserError(f"unknown scale '{name}': choose from {', '.join(SCALES)}")


if __name__ == "__main__":
    main()
