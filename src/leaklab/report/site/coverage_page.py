"""The page of what the papers have and what of it is here: ``docs/coverage.md``, a table for each paper and kind."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from posixpath import relpath

from leaklab.items.items import ITEMS
from leaklab.planning.plan import result_files
from leaklab.records.config import SCALES
from leaklab.report.judge.terms import stand_in_in_words
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.numbers.words import NONE, REDUCED
from leaklab.report.site.coverage import KINDS, Coverage, Kind, Statement, file_of
from leaklab.report.site.covered import STATUSES, Covered, Here
from leaklab.report.site.findings import table
from leaklab.report.site.pages import PaperPages

PAGE = Path("docs/coverage.md")
PLURALS = {"data set": "data sets"}
HEADS = ("what", "place", "where", *(scale[0] for scale in SCALES), "cells", "claims", "stand-ins", "status",
         "not there, and why")  # fmt: skip
FEWER = "r"
"""Stands for a setting that the scale of the results reduced."""
LEGEND = """\
Written by `leaklab findings` from `config/papers/coverage.yaml`, the items, the plan and the results of scale
`{scale}`; do not edit. A row is **whole** where everything that is printed is there: its items are made with all their
runs, its printed numbers have a value, its plug-ins and data sets are used at scale `{scale}`, and nothing is said to
lack. It is **missing** where there is nothing of it, else there **in part**.

* **d, s, p**: the scales demo, small and paper ([scales.md](scales.md)). ● runs, ◐ a part of it, ○ only when asked for
  by name, {none} not. A plug-in or data set has the number of its paper's items that use it.
* **cells**: how many of its printed numbers have a value at scale `{scale}`.
* **claims**: the word under the paper's attacker: {signs} ([verdicts.md](verdicts.md)).
* **stand-ins**: numbers of the list [at the end](#stand-ins); {fewer}: fewer rounds, images or restarts, which the
  item's page names.
"""


def coverage_page(rows: Sequence[Covered], coverage: Coverage, papers: Sequence[PaperPages], here: Here) -> str:
    """Return the page in Markdown.

    Args:
        rows: with what was found out about them.
        coverage: the file.
        papers: in their order.
        here: what the rows were held against.
    """
    standing = _stand_ins(rows)
    signs = ", ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    parts = [
        "# Coverage\n",
        LEGEND.format(scale=here.scale, signs=signs, fewer=FEWER, none=NONE),
        _counts(rows, papers),
    ]
    for paper in papers:
        own = [row for row in rows if row.paper == paper.key]
        if own or coverage.statements.get(paper.key):
            parts.append(f"## {paper.title}\n")
        for kind in KINDS:
            if of_kind := [row for row in own if row.kind == kind]:
                parts += [f"### {paper.key}: {_plural(kind)}\n", _table(of_kind, standing, here)]
        if told := coverage.statements.get(paper.key):
            parts += [f"### {paper.key}: statements without a claim\n", _statements(told)]
    return "\n".join([*parts, _house(coverage), _list(standing)])


def _plural(kind: Kind) -> str:
    return PLURALS.get(kind, f"{kind}s")


def _counts(rows: Iterable[Covered], papers: Sequence[PaperPages]) -> str:
    """Return how many rows of each paper are whole, how many of these rest on stand-ins, and so on."""
    found = Counter((row.paper, row.status) for row in rows)
    leaning = Counter(row.paper for row in rows if row.status == STATUSES[0] and row.stand_ins)
    lines = [
        (paper.title, [found[paper.key, word] for word in STATUSES], leaning[paper.key])
        for paper in papers
        if any(key == paper.key for key, _ in found)
    ]
    total = [sum(counts[place] for _, counts, _ in lines) for place in range(len(STATUSES))]
    lines.append(("all", total, sum(own for _, _, own in lines)))
    whole, part, missing = STATUSES
    heads = ("paper", "rows", whole, "of these on stand-ins or reduced", part, missing)
    return table(heads, [_texts(name, sum(c), c[0], own, *c[1:]) for name, c, own in lines])


def _texts(*values: object) -> list[str]:
    return [str(value) for value in values]


def _stand_ins(rows: Iterable[Covered]) -> dict[str, str]:
    """Return stand-in -> its number, in the order of the page."""
    names = dict.fromkeys(name for row in rows for name in row.stand_ins if not name.startswith(REDUCED))
    return {name: str(number) for number, name in enumerate(names, 1)}


def _table(rows: Sequence[Covered], standing: Mapping[str, str], here: Here) -> str:
    """Return the rows of a kind; a column that has nothing is left out."""
    lines = [
        (
            row.row.what,
            row.row.place,
            " ".join(_link(name, row.paper, here) for name in row.row.where),
            *(row.scales.get(scale, NONE) for scale in SCALES),
            f"{row.measured} of {len(row.printed)}" if row.printed else "",
            " ".join(f"{SIGNS[judged.verdict.verdict]} {judged.claim.id}" for judged in row.claims),
            ", ".join(dict.fromkeys(standing.get(name, FEWER) for name in row.stand_ins)),
            row.status,
            _not_there(row),
        )
        for row in rows
    ]
    kept = [place for place in range(len(HEADS)) if any(line[place] for line in lines)]
    return table([HEADS[place] for place in kept], [[line[place] for place in kept] for line in lines])


def _not_there(row: Covered) -> str:
    lacks = "; ".join([*row.gaps, *filter(None, [row.row.lacks])])
    return ". ".join(filter(None, [lacks, row.row.why and f"Why: {row.row.why}"]))


def _link(name: str, paper: str, here: Here) -> str:
    """Return a link to the picture of an item, or its settings where it is not made; else to the file of a part."""
    item = here.items.get(name)
    if item and here.sign(name, here.scale) == NONE:
        path = ITEMS / f"{name}.yaml"
    else:
        path = result_files(item, here.scale)["png"] if item else file_of(name, here.items)
    shown = name.removeprefix(f"{paper}/") if item else name
    return f"[{shown}]({relpath(path.as_posix(), PAGE.parent.as_posix())})"


def _statements(statements: Iterable[Statement]) -> str:
    return table(("place", "what is stated", "what would decide it"), [(s.place, s.says, s.needs) for s in statements])


def _house(coverage: Coverage) -> str:
    if not coverage.house:
        return ""
    lines = [f"* {room}: {', '.join(f'`{name}`' for name in names)}" for room, names in coverage.house.items()]
    return "## The house's own\n\nItems, and what items use, that no paper has.\n\n" + "\n".join(lines) + "\n"


def _list(standing: Mapping[str, str]) -> str:
    return "## Stand-ins\n\n" + "".join(f"{number}. {stand_in_in_words(name)}\n" for name, number in standing.items())
