"""The page of a scale's results on a forge, which shows Markdown: ``results/<scale>/README.md``."""

from collections.abc import Iterable
from pathlib import Path
from posixpath import relpath

from leaklab.records.environment import duration
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.site.findings import answer_text, table
from leaklab.report.site.headlines import KNOWING_ATTACKER, PAPER_ATTACKER
from leaklab.report.site.pages import ItemPage, JudgedClaim, PaperPages, SiteData
from leaklab.report.site.threats import FILE as LETTERS_OF_ROWS


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
