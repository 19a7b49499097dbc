"""The report of a scale from a checkout: where the workflow left it, or built from the published results."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from posixpath import relpath

from leaklab.items.items import Item, load_items, load_papers
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.missing import Reasons, without_missing
from leaklab.planning.plan import Plan, result_files
from leaklab.planning.run_records import inputs_of, lacked_data
from leaklab.records.config import Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.site import site
from leaklab.report.site.built_before import Found
from leaklab.report.site.files_beside import FilesBeside, files_beside
from leaklab.report.site.findings import answer_text, table
from leaklab.report.site.headlines import KNOWING_ATTACKER, PAPER_ATTACKER
from leaklab.report.site.pages import ItemPage, JudgedClaim, PaperPages, SiteData
from leaklab.report.site.pictures import begin
from leaklab.report.site.recipes import absent_records
from leaklab.report.site.site_data import Sources, gather
from leaklab.report.site.threat_letters import FILE as LETTERS_OF_ROWS

CLAIMS = Path("config/papers/claims.csv")
PUBLISHED: Scale = "small"


def report_page(scale: Scale) -> Found:
    """Return the report that the workflow made, or build it from tables, figures and verdicts; nothing is run.

    Raises:
        UserError: this is no project, the scale has no judged results here, or all its runs are here and the workflow
            has yet to build the report.
    """
    items = load_items()
    folder = Path("results", scale)
    page = folder / "report/index.html"
    if page.is_file() and is_of_workflow(folder):
        return Found(page)
    sources = _sources(scale)
    with files_beside() as beside:
        for item in items.values():
            begin(result_files(item, scale)["png"], beside)
        items = as_made(items, scale)
        plan = KnownPlan.of(known_plan(items, (scale,)))
        absent = absent_records(plan, scale, plan.ready(scale))
        if not absent:
            raise UserError(f"no report of the results here yet: run `snakemake --cores 2 {page}`")
        build_aside(scale, items, sources, page.parent, plan, beside)
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


def is_of_workflow(folder: Path) -> bool:
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


def build_aside(
    scale: Scale,
    items: Mapping[str, Item],
    sources: Sources,
    folder: Path,
    plan: Plan | None = None,
    beside: FilesBeside | None = None,
) -> None:
    """Build the site aside and put it in the place of the one before; a build that fails leaves that one alone.

    ``plan`` is of the items at the scale, where it is known, and ``beside`` has begun with their pictures.
    """
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made, before = Path(scratch, "made"), Path(scratch, "before")
        data = gather(scale, items, sources, Path(scratch, "drawings"), plan)
        try:
            site.build(data, made, beside)
        except BaseException:
            if beside is not None:
                beside.close()  # nobody may write into a folder that is taken away
            raise
        if folder.exists():
            folder.replace(before)
        made.replace(folder)


# The page of a scale's results on a forge, which shows Markdown: ``results/<scale>/README.md``.


def scale_readme(data: SiteData) -> str:
    """Return verdicts and, for each item, its picture, files, command and cost; paths are relative to the scale."""
    shown = [paper for paper in data.papers if any(page.state == "done" for page in paper.items)]
    waiting = [paper.title for paper in data.papers if paper not in shown]
    parts = [
        f"# Results at scale {data.scale}\n",
        "Made by the workflow; do not edit. "
        f"`leaklab report --scale {data.scale}` builds the same as pages, with all settings and numbers.\n",
        f"{data.scale_note}\n",
        *_threat_models(shown),
        *(part for paper in shown for part in _paper(paper, data.scale)),
    ]
    if waiting:
        parts.append(f"No item of these papers runs yet: {'; '.join(waiting)}.\n")
    return "\n".join(parts)


def _threat_models(papers: Iterable[PaperPages]) -> list[str]:
    """Return the line about the file of letters, where there are attacks."""
    if not any(page.threats for paper in papers for page in paper.items):
        return []
    return [
        f"What the attacker of each row had to know, by [letters](../../docs/attacks.md#threat-models-by-letter): "
        f"[{LETTERS_OF_ROWS}]({LETTERS_OF_ROWS}).\n"
    ]


def verdict_matrix(pages: Iterable[ItemPage]) -> str:
    """Return one line per item with its claims under the word of the strongest attacker that was run."""
    lines = []
    for page in pages:
        own = [" ".join(j.claim.id for j in page.claims if j.strongest == word) for word in SIGNS]
        lines.append([page.item, *own] if page.claims else [page.item, *[""] * len(SIGNS)])
    return table(["item", *(f"{sign} {word}" for word, sign in SIGNS.items())], lines)


def _paper(paper: PaperPages, scale: str) -> list[str]:
    done = [page for page in paper.items if page.state == "done"]
    claims = [judged for judged in paper.claims if any(judged in page.claims for page in done)]
    return [
        f"## {paper.title}\n",
        *([answer_text(paper.answer)] if paper.answer else []),
        "### Claims by item\n",
        "Under the strongest attacker that was run; [the five words](../../docs/verdicts.md).\n",
        verdict_matrix(done),
        "### Items\n",
        _items(done, scale),
        "### Claims\n",
        table(("claim", "about", "what is claimed", PAPER_ATTACKER, KNOWING_ATTACKER), map(_claim, claims)),
    ]


def _items(pages: Iterable[ItemPage], scale: str) -> str:
    lines = []
    for page in pages:
        files = [f"[{d.path.suffix[1:]}]({_from(scale, d.path)})" for d in page.downloads]
        picture = page.pictures[0].path if page.pictures else None
        lines.append(
            [
                f"**{page.item}** {page.title}",
                f'<a href="{_from(scale, picture)}"><img src="{_from(scale, picture)}" width="240" alt=""></a>'
                if picture
                else "",
                ", ".join(files),
                _cost(page),
                f"`{page.recipe.command}`" if page.recipe else "",
            ]
        )
    return table(("item", "picture", "table", "cost", "command"), lines)


def _cost(page: ItemPage) -> str:
    if page.cost:
        jobs = f"{page.cost.jobs} jobs, {duration(page.cost.cpu_seconds)} of CPU time"
        return f"{jobs}, {page.cost.peak_memory_mib or 0:.0f} MiB"
    if not page.recipe:
        return ""
    return f"at most {duration(page.recipe.cpu_seconds)} of CPU time (estimate)" if page.recipe.jobs else "seconds"


def _claim(judged: JudgedClaim) -> tuple[str, ...]:
    printed, knowing = judged.verdict.verdict, judged.verdict.knowing
    strongest = f"{SIGNS[knowing.verdict]} {knowing.verdict}" if knowing else ""
    return judged.claim.id, judged.claim.about, judged.claim.statement, f"{SIGNS[printed]} {printed}", strongest


def _from(scale: str, path: Path) -> str:
    return relpath(path.as_posix(), f"results/{scale}")
