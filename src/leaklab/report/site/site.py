"""The static site: an overview, pages of papers and of items; no script, no network, nothing outside its folder."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from leaklab.planning.outputs import nothing_done
from leaklab.records import files
from leaklab.records.config import Scale
from leaklab.records.environment import duration
from leaklab.records.errors import UserError
from leaklab.records.kept_json import KEPT
from leaklab.report.judge.attackers import MEDIAN
from leaklab.report.judge.terms import NAMES, in_words, key_in_words, key_name, name_in_words, stand_in_in_words
from leaklab.report.judge.verdicts import SIGNS
from leaklab.report.numbers.results import RowKeys
from leaklab.report.numbers.words import MINUS, NONE, STATES
from leaklab.report.site import pictures, scoreboard
from leaklab.report.site.files_beside import FilesBeside, files_beside
from leaklab.report.site.findings import answer_heads
from leaklab.report.site.glossary import in_full
from leaklab.report.site.headlines import (
    ATTACKERS,
    KNOWING_ATTACKER,
    PAPER_ATTACKER,
    attackers_of,
    load_headlines,
    nobody_knows,
    setting_lines,
)
from leaklab.report.site.pages import ItemPage, SiteData, Standing
from leaklab.report.site.strips import strips
from leaklab.report.tables import tables

Page = TypeVar("Page")
STRIPS_OF: Scale = "small"
"""The scale whose pictures stand first: the demo's are of other data."""
STANDINGS: tuple[tuple[Standing, str, str], ...] = (
    ("stands", "What stands", "Holds against the paper's attacker and against the strongest of all that were run."),
    ("falls", "What falls", "Does not hold against the strongest attacker that was run."),
    ("not found", "What was not found", "Does not hold here, already against the paper's attacker."),
    ("open", "What is open here", "Undecided, without a premise or not run."),
)  # fmt: skip
"""Groups of the claims of protection, in order: standing, heading, what it means."""
HYPHENATED = re.compile(r"\w-\w")
"""Where a browser breaks a word if it may."""


def build(data: SiteData, folder: Path, beside: FilesBeside | None = None) -> tuple[Path, ...]:
    """Write the overview, all claims, pages of papers and items, the style sheet, copies of figures and downloads.

    Args:
        data: what to show.
        folder: ``results/<scale>/report``; pages of an earlier build are replaced.
        beside: has begun with pictures; None where nothing was begun.

    Returns:
        every file written, ``index.html`` first.

    Raises:
        UserError: a figure or download does not exist, or two items share a name.
    """
    pages = [page for paper in data.papers for page in paper.items]
    doubled = [name for name, count in Counter(page.name for page in pages).items() if count > 1]
    if doubled:
        raise UserError(f"report: two items are called {doubled[0]}: give each item its own name")
    if beside is None:
        with files_beside() as alone:
            return build(data, folder, alone)
    environment = _environment()
    written = [
        folder / "index.html",
        folder / "style.css",
        folder / "claims.html",
        *(folder / f"{paper.key}.html" for paper in data.papers),
    ]
    drawn = strips(load_headlines(), data.scale) if data.scale == STRIPS_OF else {}
    own = {path.stem: Markup(text) for path, text in drawn.items()}  # strips escape what they are given
    index = environment.get_template("index.html").render(site=data, pages=pages, strips=own, told=set())
    files.write_text(written[0], index)
    files.write_text(written[1], environment.get_template("style.css").render())
    files.write_text(written[2], environment.get_template("claims.html").render(site=data))
    if data.scoreboard:
        written.append(folder / "scoreboard.html")
        text = environment.get_template("scoreboard.html").render(site=data, **scoreboard.page(data.scoreboard))
        files.write_text(written[-1], text)
    for place, (paper, path) in enumerate(zip(data.papers, written[3:], strict=False)):
        text = environment.get_template("paper.html").render(
            site=data, paper=paper, told=set(), **_neighbors(data.papers, place)
        )
        files.write_text(path, text)
    for place, page in enumerate(pages):
        path = folder / f"{page.name}.html"
        text = environment.get_template("item.html").render(
            site=data,
            page=page,
            paper=next(paper for paper in data.papers if paper.key == page.paper),
            table=_table(page),
            settings=setting_lines(page.settings, data.scale),
            **_neighbors(pages, place),
        )
        files.write_text(path, text)
        written.append(path)
    for page in pages:
        written += pictures.copies(page, folder, beside)
    beside.finish()
    return tuple(dict.fromkeys(written))


def _neighbors(pages: Sequence[Page], place: int) -> dict[str, Page | None]:
    """Return the pages before and after one, None where there is none."""
    return {
        "before": pages[place - 1] if place else None,
        "after": pages[place + 1] if place + 1 < len(pages) else None,
    }


def _table(page: ItemPage) -> Markup:
    # page_table escapes every text that it puts in
    return Markup(tables.page_table(page.grid, page.title)) if page.grid else Markup("")


TEMPLATES = KEPT / "templates"


class KeptTemplates(FileSystemBytecodeCache):
    """Compiled templates by name, source and versions; where nothing can be kept, they are compiled each time."""

    def __init__(self, folder: Path = TEMPLATES) -> None:
        """Name the folder, which is made when something is kept."""
        super().__init__(str(folder))

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read what is kept; what is damaged counts as nothing."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template."""
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("leaklab.report.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=KeptTemplates(),
    )
    environment.filters |= {**FILTERS, **scoreboard.FILTERS}
    environment.globals |= GLOBALS
    return environment


METRICS: Mapping[str, str] = {
    "lpips_squeeze": "LPIPS-Squeeze", "psnr_unit": "PSNR on [0, 1]", "mse_raw": "MSE, not clamped",
    "mse_signed": "MSE on [-1, 1]", "psnr_signed": "PSNR on [-1, 1]", "rouge_l": "ROUGE-L",
    "exact_share": "share read exactly", "token_recovery": "words found", "position_recovery": "words in their places",
}  # fmt: skip
"""Metric -> how it is written, beside those that rows name too (``terms.NAMES``)."""
# a printed pattern is met where a cell is this near to print once the groups' levels are made equal (in the unit)
NEAR = 1.0


def pattern_counts(page: ItemPage) -> Counter[bool]:
    """Count the cells that are near to print, and those that are not, after each group's mean is removed."""
    centered = [row.centered_difference for row in page.comparisons if row.centered_difference is not None]
    return Counter(abs(value) <= NEAR for value in centered)


def number(value: float | None) -> str:
    """Return a number with four significant digits; ``–`` for none."""
    if value is None:
        return NONE
    return f"{value:.4g}".replace("-", MINUS)


def span(interval: tuple[float, float] | None) -> str:
    """Return an interval as e.g. ``0.12 to 0.31``; empty for none."""
    return f"{number(interval[0])} to {number(interval[1])}" if interval else ""


def memory(mebibytes: float | None) -> str:
    """Return mebibytes as MiB or GiB."""
    if mebibytes is None:
        return "not measured"
    return f"{mebibytes:.0f} MiB" if mebibytes < 1024 else f"{mebibytes / 1024:.1f} GiB"


def shared_keys(rows: Iterable[RowKeys]) -> tuple[str, ...]:
    """Return the keys that all rows have in the same order; none if they differ, so that each row names its own."""
    found = {tuple(row) for row in rows}
    return found.pop() if len(found) == 1 else ()


def values_text(row: RowKeys, named: tuple[str, ...]) -> str:
    """Return a row under a heading that names its keys (``CNN · no perturbation``), or all in words where none does."""
    return " · ".join(key_in_words(key, value) for key, value in row.items()) if named else in_words(row)


def breakable(text: str) -> Markup:
    """Return a command or a path that may go on in the next line after each slash, and nowhere else in a word."""
    parts = [
        Markup('<span class="whole">{}</span>').format(part) if HYPHENATED.search(part) else part
        for part in text.split("/")
    ]
    return Markup("/<wbr>").join(parts)


def metric_in_words(name: str) -> str:
    """Return a metric as it is written: ``LPIPS-Squeeze (median)`` for ``lpips_squeeze_median``."""
    own = name.removesuffix(MEDIAN)
    return f"{METRICS.get(own) or NAMES.get(own) or own.replace('_', ' ')}{' (median)' if own != name else ''}"


def keys_text(row: RowKeys) -> str:
    """Return a row's keys in words, e.g. ``CNN, no perturbation``."""
    return in_words(row) or NONE


# What the templates call.

FILTERS: Mapping[str, Callable[..., Any]] = {
    "copied": lambda path, page: pictures.copied_name(page, path),
    "shown": lambda path, page: pictures.shown_name(page, path),
    "thumbnail": pictures.thumbnail_name,
    "size": pictures.size_of,
    "duration": duration,
    "in_full": in_full,
    "key": key_name,
    "keys": keys_text,
    "breakable": breakable,
    "memory": memory,
    "metric": metric_in_words,
    "number": number,
    "percent": "{:.0f}".format,
    "span": span,
    "stand_in": stand_in_in_words,
    "sentence": tables.sentence,
    "paper_name": lambda key: key.upper(),
    "values": values_text,
    "written": name_in_words,
    "words": lambda name: name.replace("_", " "),
    "slug": lambda text: text.replace(" ", "-"),
}
GLOBALS: Mapping[str, Any] = {
    "answer_heads": answer_heads,
    "legend": tables.legend,
    "state_symbols": STATES,
    "state_counts": lambda pages: Counter(page.state for page in pages),
    "verdicts": tuple(SIGNS),
    "verdict_symbols": SIGNS,
    "verdict_counts": lambda pages: Counter(j.strongest for page in pages for j in page.claims),
    "within_counts": lambda page: Counter(row.within for row in page.comparisons),
    "draw_counts": lambda page: Counter(row.within_draws for row in page.comparisons),
    "pattern_counts": pattern_counts,
    "reasons": lambda page: Counter(
        row.reason for row in page.comparisons if row.reason and row.within == "not compared"
    ),
    "shared_keys": lambda lines: shared_keys(line.row for line in lines),
    "standings": STANDINGS,
    "strongest_counts": lambda claims: Counter(judged.strongest for judged in claims),
    "printed_counts": lambda claims: Counter(judged.verdict.verdict for judged in claims),
    "seen_more": lambda page: Counter(pair.leaks_more for pair in page.attackers if pair.told),
    "shown_attackers": lambda page: [
        name for name in ATTACKERS if any(name in line.by_attacker for line in page.protection)
    ],
    "compared": lambda page: sum(pair.leaks_more is not None for pair in page.attackers),
    "attackers_of": lambda page: attackers_of(page.strangers),
    "nobody_knows": nobody_knows,
    "nothing_done": nothing_done,
    "paper_attacker": PAPER_ATTACKER,
    "knowing_attacker": KNOWING_ATTACKER,
}
