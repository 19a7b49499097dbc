"""A page a paper: ``docs/papers/<paper>.md``, what came of its defense, its claims and its items."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from leaklab.report.judge.claims import About
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.site.findings import answer_text, table
from leaklab.report.site.pages import ItemPage, JudgedClaim, PaperPages, SiteData

FOLDER = Path("docs/papers")
HEAD = """\
# {name}

**{title}.** {citation}

Written by `leaklab findings` from the results of scale `{scale}`; do not edit. [Findings](../findings.md) has every
item in sentences, [coverage](../coverage.md) what of the paper is here, and the [artifact page](../artifact.md) the
command, the time and the tolerance of each claim.
"""
CLAIMS = """\
## What its claims come to

Under the strongest attacker that was run, by what a claim is about; [verdicts](../verdicts.md) says what the words
mean, and the list below has the word under the paper's own attacker too.
"""


def paper_pages(data: SiteData) -> dict[Path, str]:
    """Return path -> page in Markdown, lines not wrapped, of each paper with results."""
    return {FOLDER / f"{paper.key}.md": _page(paper, data.scale) for paper in data.papers if paper.done}


def _page(paper: PaperPages, scale: str) -> str:
    parts = [HEAD.format(name=paper.name, title=paper.title, citation=paper.citation + ".", scale=scale)]
    if paper.answer:
        parts += ["## What its defense hides\n", answer_text(paper.answer), *_picture(paper)]
    if paper.claims:
        parts += [CLAIMS, _counts(paper.claims), _claims(paper.claims)]
    return "\n".join([*parts, "## Its items\n", _items(paper.done)])


def _picture(paper: PaperPages) -> Iterator[str]:
    """Yield the picture of what attackers read: of an item that the answer speaks of, if one of them shows it."""
    spoken = [line.of.item for line in paper.answer.lines] if paper.answer else []
    drawn = [page for page in paper.done if page.pictures_first and page.attackers]
    shown = sorted(drawn, key=lambda page: page.item not in spoken)
    for picture in [one for page in shown for one in page.pictures[:1]][:1]:
        yield f"![{picture.alt}]({_from_page(picture.path)})\n"


def _from_page(path: Path) -> str:
    return f"../../{path.as_posix()}"


def _counts(claims: tuple[JudgedClaim, ...]) -> str:
    counted = {about: Counter(one.strongest for one in claims if one.claim.about == about) for about in get_args(About)}
    heads = ("claims about", *(f"{sign} {word}" for word, sign in SIGNS.items()))
    return table(heads, ([about, *(str(of[word]) for word in SIGNS)] for about, of in counted.items() if of))


def _claims(claims: tuple[JudgedClaim, ...]) -> str:
    lines = (
        (
            f"**{one.claim.id}** {one.claim.statement}",
            f"{SIGNS[one.verdict.verdict]} {one.verdict.verdict}",
            f"{SIGNS[one.strongest]} {one.strongest}" if one.verdict.knowing else "",
        )
        for one in claims
    )
    return table(("claim", "the paper's attacker", "strongest attacker"), lines)


def _items(pages: tuple[ItemPage, ...]) -> str:
    return table(("item", "what it is", "what to read in it"), map(_item, pages))


def _item(page: ItemPage) -> tuple[str, str, str]:
    name = f"[{page.item}]({_from_page(page.pictures[0].path)})" if page.pictures else page.item
    return name, page.title, page.reading
