"""Documents that quote results: findings, coverage, the generated parts of the README, and a scale's own page.

Each is made again from the published results by ``leaklab findings``; a test compares them with the files.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from html import escape
from pathlib import Path

from leaklab.items.items import load_items
from leaklab.planning.estimate import cpu_seconds
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.outputs import jobs_behind
from leaklab.records.config import SCALES, Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.report.judge.terms import in_words, name_in_words, stand_in_in_words
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.site.artifact_page import PAGE as ARTIFACT
from leaklab.report.site.artifact_page import artifact_page
from leaklab.report.site.attacks_tried import Unbroken
from leaklab.report.site.checkout import as_made, scale_readme
from leaklab.report.site.coverage import COVERAGE, Coverage, load_coverage
from leaklab.report.site.coverage_page import PAGE, coverage_page
from leaklab.report.site.covered import Covered, Here, covered
from leaklab.report.site.findings import Corrected, answer_text, table
from leaklab.report.site.headlines import load_headlines
from leaklab.report.site.pages import ItemPage, JudgedClaim, SiteData
from leaklab.report.site.paper_pages import paper_pages
from leaklab.report.site.strips import FOLDER, strips
from leaklab.report.tables.tables import sentence

README = Path("README.md")
FINDINGS = Path("docs/findings.md")
FIRST_PAGE = Path("docs/index.md")
ITEMS = Path("docs/items.md")
NAMED = 5
"""How many items without results are named."""
PART = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def documents(data: SiteData) -> dict[Path, str]:
    """Return path -> text of every document that quotes the results of a scale.

    Raises:
        UserError: the README is missing, or has a generated part that nobody makes.
    """
    if not README.is_file():
        raise UserError(f"no {README} here: run from the project's root folder")
    return {
        **strips(load_headlines(), data.scale),
        README: with_parts(README.read_text(encoding="utf-8"), data),
        FIRST_PAGE: with_parts(FIRST_PAGE.read_text(encoding="utf-8"), data),
        FINDINGS: findings_text(data),
        ITEMS: items_text(data),
        PAGE: coverage_text(data),
        **{
            path: "\n".join(_wrapped(text))
            for path, text in (paper_pages(data) | {ARTIFACT: artifact_page(data)}).items()
        },
        Path("results", data.scale, "README.md"): scale_readme(data),
    }


def unsaid(data: SiteData) -> list[str]:
    """Return a line for each finding that cannot be written, and for each row of the coverage whose words are old."""
    left_out = [
        f"left out of {page.paper} {page.item}: {one.why}"
        for paper in data.papers
        for page in paper.items
        for one in page.findings
        if not one.text
    ]
    old = [
        f"{COVERAGE}: {own.paper}, {own.kind}, {own.row.what}: {own.doubt}" for own in coverage_of(data)[1] if own.doubt
    ]
    return left_out + old


def coverage_text(data: SiteData) -> str:
    """Return what the papers have, row by row, and whether it is here."""
    coverage, rows, here = coverage_of(data)
    return "\n".join(_wrapped(coverage_page(rows, coverage, data.papers, here)))


def coverage_of(data: SiteData) -> tuple[Coverage, tuple[Covered, ...], Here]:
    """Return the rows of the papers, what was found out about them, and what they were held against.

    Raises:
        UserError: a row is wrong.
    """
    here = Here.of(data, _plan(data.scale))
    coverage = load_coverage(here.plan.items)
    return coverage, covered(coverage, here), here


@cache
def _plan(scale: Scale) -> KnownPlan:
    """Return the plan of all scales, of the items as they are where the results of one were made."""
    return KnownPlan.of(known_plan(as_made(load_items(), scale)))


def with_parts(text: str, data: SiteData) -> str:
    """Return a Markdown text with its generated parts made anew.

    Raises:
        UserError: there is no such part.
    """

    def made(found: re.Match[str]) -> str:
        if found[2] not in PARTS:
            raise UserError(f"{README}: no part is called {found[2]!r}: choose from {', '.join(PARTS)}")
        return f"{found[1]}{PARTS[found[2]](data).rstrip()}\n{found[3]}"

    return PART.sub(made, text)


def findings_text(data: SiteData) -> str:
    """Return what came out at a scale, by item: sentences, printed numbers met, and each claim's own line."""
    parts = [
        "# Findings\n",
        f"What came out at scale `{data.scale}`. Written by `leaklab findings` from the result tables, "
        "`config/papers/findings.yaml` and the verdicts; do not edit. [verdicts.md](verdicts.md) says what the five "
        "words mean, and [scales.md](scales.md) what a scale changes. Signs count an item's claims: "
        f"{', '.join(f'{sign} {word}' for word, sign in SIGNS.items())}.\n",
    ]
    for paper in data.papers:
        if paper.done:
            parts += [f"## {paper.title}\n", *([answer_text(paper.answer)] if paper.answer else [])]
            parts += [_folded(f"Items: {len(paper.done)}", "\n".join(_item(page) for page in paper.done))]
    if data.corrections:
        parts.append(_corrections(data.corrections))
    return "\n".join(line for part in parts for line in _wrapped(part))


def _corrections(corrections: Iterable[Corrected]) -> str:
    """Return what was published and was wrong, by reason."""
    lines = [
        f"* {one.why} {' '.join(f'{text}.' if not text.endswith('.') else text for text in one.statements)}"
        for one in corrections
    ]
    return "## What changed, and why\n\n" + _folded(f"Corrections: {len(lines)}", "\n".join(lines))


def _item(page: ItemPage) -> str:
    met = [row.within for row in page.comparisons if row.within in ("yes", "no")]
    lines = [one.text for one in page.findings if one.text]
    if met:
        lines.append(f"{met.count('yes')} of {len(met)} printed numbers are met within tolerance.")
    lines += [_unbroken(setting) for setting in page.unbroken]
    lines += [_claim(judged) for judged in page.claims]
    if page.substitutes:
        lines.append(f"Stand-ins: {'; '.join(map(stand_in_in_words, page.substitutes))}.")
    if not lines:
        lines.append("No printed numbers and no claims of its own.")
    words = Counter(judged.verdict.verdict for judged in page.claims)
    tally = "".join(f" {sign} {words[word]}" for word, sign in SIGNS.items() if words[word])
    # folded, as a page of all items is a book; the site opens items on wide screens
    title = f"{page.item}: {escape(page.title, quote=False)}{tally}"
    return _folded(title, "\n".join(f"* {line}" for line in lines), f' id="{page.name}"')


def _folded(title: str, text: str, attribute: str = "") -> str:
    return f'<details class="wide"{attribute} markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>\n'


def _unbroken(setting: Unbroken) -> str:
    low, high = setting.interval
    if setting.bound:
        return f"Not to be broken by any attacker: {in_words(setting.row)}; {setting.bound}."
    return (
        f"Not broken by the attackers tried: {in_words(setting.row)}; "
        f"{setting.left:.0f} % of the protection left ({low:.0f} to {high:.0f}). "
        f"Tried: {'; '.join(map(name_in_words, setting.attacks))}."
    )


def _claim(judged: JudgedClaim) -> str:
    own, strongest = judged.verdict.judgement, judged.verdict.knowing
    measured = own.sentence.partition("; on stand-ins")[0]
    said = f"{judged.claim.id} {SIGNS[own.verdict]} {own.verdict}: {sentence(measured)}"
    if strongest and strongest.verdict != own.verdict:
        said += f" Against the strongest attacker that was run: {SIGNS[strongest.verdict]} {strongest.verdict}."
    return said


def _wrapped(part: str, width: int = 120) -> Iterable[str]:
    """Yield lines of at most ``width`` signs; tables and headings stay whole."""
    for line in part.split("\n"):
        if len(line) <= width or line.startswith(("|", "#")):
            yield line
            continue
        indent = "  " if line.startswith("* ") else ""
        current = ""
        for word in line.split(" "):
            if current and len(current) + 1 + len(word) > width:
                yield current
                current = indent + word
            else:
                current = f"{current} {word}" if current else word
        yield current


def _strips(data: SiteData, docs: str) -> str:
    """Return each paper's pictures with its sentence below; ``docs`` leads from the document to the folder of docs."""
    drawn, headlines = strips(load_headlines(), data.scale), load_headlines()
    parts = []
    for paper in data.papers:
        file = FOLDER / f"{paper.key}.svg"
        if paper.answer and file in drawn:
            own = headlines[paper.key].strip
            about = f"{paper.answer.defense}: {own.of}" if own else paper.answer.defense
            more = f"[More]({docs}papers/{paper.key}.md)"
            parts.append(f"![{about}]({docs}strips/{file.name})\n\n**{paper.answer.sentence}** {more}\n")
    return "\n".join(_wrapped("\n".join(parts)))


def items_text(data: SiteData) -> str:
    """Return the page of all items that have results."""
    done = [page for paper in data.papers for page in paper.done]
    lines = [
        (
            f"[{page.paper} {page.item}](../figures/{data.scale}/{page.paper}/{page.item}.png)",
            page.title,
            " ".join(f"{SIGNS[judged.strongest]} {judged.claim.id}" for judged in page.claims),
            _cost(page),
        )
        for page in done
    ]
    return (
        "# Items\n\nTables, figures, theorems and algorithms of the three papers, and what was added to them.\n"
        "Written by `leaklab findings`; do not edit.\n\n"
        + "\n".join(_wrapped(_how_many(data)))
        + "\n\n"
        + table(("item", "what it is", "claims, under the strongest attacker", "cost"), lines)
        + "\n"
        + ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
        + "\n"
    )


def _how_many(data: SiteData) -> str:
    every = [page for paper in data.papers for page in paper.items]
    done = {(page.paper, page.item) for paper in data.papers for page in paper.done}
    waiting = [page for page in every if (page.paper, page.item) not in done]
    if not waiting:
        return f"All {len(every)} items have results."
    names = ", ".join(f"{page.paper} {page.item}" for page in waiting[:NAMED]) + (
        " and more" if waiting[NAMED:] else ""
    )
    return f"{len(done)} of {len(every)} items have results; `leaklab items --why` says what others wait for: {names}."


def _cost(page: ItemPage) -> str:
    if page.cost:
        return f"{duration(page.cost.cpu_seconds)} CPU"
    if not page.recipe:
        return ""
    return f"at most {duration(page.recipe.cpu_seconds)} CPU" if page.recipe.jobs else "seconds"


def _scales(_: SiteData) -> str:
    plan = known_plan(load_items())
    costs = {
        scale: [
            f"{len(plan.ready(scale))}",
            f"{len(jobs := jobs_behind(plan, scale, plan.ready(scale))):,}",
            duration(cpu_seconds(jobs)),
        ]
        for scale in SCALES
    }
    return table(
        ("scale", "items", "runs, tables and figures aside", "estimated CPU time, at most"),
        ([f"`{name}`", *cost] for name, cost in costs.items()),
    )


PARTS: Mapping[str, Callable[[SiteData], str]] = {
    "strips": partial(_strips, docs="docs/"),
    "scales": _scales,
    "pictures": partial(_strips, docs=""),
}
"""Generated parts of the README and of the first page by their names."""
