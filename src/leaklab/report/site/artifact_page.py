"""The page for reviewers: ``docs/artifact.md``, each claim with command, time, what to expect, and its tolerance."""

from collections.abc import Iterator
from pathlib import Path

from leaklab.provenance.packing import SUFFIX
from leaklab.records.config import Scale
from leaklab.records.environment import duration
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.sentences import of_difference, shown, unit_of
from leaklab.report.judge.verdicts import SIGNS, Judgement, Sides
from leaklab.report.numbers.words import NONE
from leaklab.report.site.findings import table
from leaklab.report.site.pages import ItemPage, JudgedClaim, PaperPages, SiteData

PAGE = Path("docs/artifact.md")
HEAD = """\
# For reviewers of the artifact

Written by `leaklab findings` from `config/papers/claims.csv`, the items and the results of scale `{scale}`; do not
edit. Everything below is of that scale, on the machine that made the published results; [scales](scales.md) says what
it changes, and [coverage](coverage.md) what of the papers is here.

## Ways to check, from the shortest

| what | command | what to expect |
| --- | --- | --- |
| the chain is whole | `make demo` | `report:` and the path of its page; embedded data decide nothing about a paper |
| a table, from its scores | `leaklab remake`, with its item | the same bytes; a figure with pictures needs the runs |
| nothing published was changed by hand | `leaklab audit --git HEAD` | `passed`, or the file that differs |
| one claim, from raw data | the command of its item, below | the word and the number of its row |
| all claims | `make report SCALE={scale} RUN=1` | at most {total} of one CPU core, shared runs counted each |

Install by `make setup`; data sets come by `leaklab fetch`. An item that was made once is not made again: a second
command for the same item ends at once, and `snakemake --forceall` before the file asks for all of it.

## How to read a row

* **Expect** has the word under the paper's attacker and, where it differs, under the strongest attacker that was run;
  then what was found and what is needed; `results/{scale}/claims.csv` says of what. The [five words](verdicts.md) are
  {signs}.
* **Tolerance** is the interval of the margin (positive on the claim's side), as it is published. A repeat with the same
  versions on the same kind of processor gives the same bytes; elsewhere rounding differs, and a search may end in
  another place. A margin inside the interval agrees with what is published; the word changes only where the interval
  comes to lie on the other side of zero. *As it is* stands where a claim takes its numbers without an interval, such
  as counts and bounds: only rounding may move it. {none} stands where there is no number, or nothing bounds it, as
  with fewer than six updates or a single seed. How often it holds over draws of the partition stands beside it.
* **Time** is what the item took here on one CPU core, all its runs together; several items share runs.
"""


def artifact_page(data: SiteData) -> str:
    """Return the page in Markdown, lines not wrapped."""
    signs = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    seconds = {page.name: _seconds(page) for paper in data.papers for page in paper.items if page.recipe}
    total = duration(sum(filter(None, seconds.values())))
    parts = [HEAD.format(scale=data.scale, total=total, signs=signs, none=NONE)]
    for paper in data.papers:
        if sections := list(_sections(paper, data.scale)):
            parts += [f"## {paper.name}\n\n{paper.title}.\n", *sections]
    return "\n".join(parts)


def _sections(paper: PaperPages, scale: Scale) -> Iterator[str]:
    """Yield a section for each item with claims; a claim is told where it is first met."""
    for page in paper.items:
        own = [one for one in page.claims if paper.page_of_claim[one.claim.id] == page.name]
        if own:
            rows = table(("claim", "expect", "tolerance"), map(_row, own))
            yield f"### {paper.key} {page.item}\n\n{page.title}.\n\n{_how(page, scale)}\n\n{rows}"


def _how(page: ItemPage, scale: Scale) -> str:
    """Return the commands, the time and the data of an item."""
    if page.recipe is None:
        return f"Not run at this scale: {page.reason or 'it is planned'}."
    data = ", ".join(source.name for source in page.recipe.data)
    lines = [f"* Command: `{page.recipe.command}`", f"* Time: {_time(page)}", f"* Data: {data or NONE}"]
    if Path("results", scale, page.paper, f"{page.item}{SUFFIX}").is_file():
        lines.append(f"* From its scores, without its runs: `leaklab remake {page.paper} {page.item}`")
    return "\n".join(lines)


def _time(page: ItemPage) -> str:
    """Return what an item took, or what the plan says that it takes at most."""
    seconds = _seconds(page)
    if page.cost and page.cost.cpu_seconds is not None:
        return f"{duration(page.cost.cpu_seconds)} of one CPU core, in {page.cost.jobs} runs"
    return f"at most {duration(seconds)} of one CPU core, by the plan" if seconds else "seconds"


def _seconds(page: ItemPage) -> float:
    if page.cost and page.cost.cpu_seconds is not None:
        return page.cost.cpu_seconds
    return page.recipe.cpu_seconds if page.recipe else 0.0


def _row(judged: JudgedClaim) -> tuple[str, str, str]:
    own, strongest, frequency = judged.verdict.judgement, judged.verdict.knowing, judged.verdict.frequency
    expected = _expected(judged.claim, own, frequency.mean if frequency else "")
    if strongest and strongest.verdict != own.verdict:
        expected += f"; strongest attacker: {_expected(judged.claim, strongest)}"
    return f"**{judged.claim.id}** {judged.claim.statement}", expected, _tolerance(judged)


def _expected(claim: Claim, judgement: Judgement, draws: str = "") -> str:
    """Return the word with the two sides of the comparison that it hangs on, and what draws say that decide."""
    sides, unit = judgement.sides, _unit(claim, judgement)
    said = f"{SIGNS[judgement.verdict]} {judgement.verdict}{f': {draws}; the table itself' if draws else ''}"
    if sides is None or sides.found is None or sides.needed is None:
        return said
    return f"{said}: found {shown(sides.found, unit)}, needed {sides.relation} {shown(sides.needed, unit)}"


def _unit(claim: Claim, judgement: Judgement) -> str:
    """Return the unit of the numbers that a verdict hangs on: where the premise fails, they are the premise's."""
    return unit_of(claim.premise_sentence if judgement.verdict == "no premise" else claim.sentence)


def _tolerance(judged: JudgedClaim) -> str:
    judgement, frequency = judged.verdict.judgement, judged.verdict.frequency
    said = _of_sides(judgement.sides, _unit(judged.claim, judgement))
    return f"{said}; {frequency.short}" if frequency else said


def _of_sides(sides: Sides | None, unit: str) -> str:
    if sides is None or sides.margin is None or sides.margin_low is None or sides.margin_high is None:
        return NONE
    margin, low, high = (of_difference(value, unit) for value in (sides.margin, sides.margin_low, sides.margin_high))
    return f"margin {margin}, as it is" if low == high else f"margin {margin}, from {low.split()[0]} to {high}"
