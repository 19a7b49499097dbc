"""What ``leaklab items`` prints: a table, and the lines below it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from leaklab.planning.known_items import KnownItem, known, known_items
from leaklab.planning.names import FOLDER, PAPER, is_paper_of_own, named_paper, own_files
from leaklab.records.scales import SCALES, Scale

SYMBOLS = {"done": "[green]done[/]", "not run": "not run", "planned": "[dim]planned[/]"}
WIDEST = len("planned")
Words = Mapping[str, Sequence[str]]
"""Item -> the word of its state at each scale."""


@dataclass(frozen=True)
class Listing:
    """A table with lines below it.

    Attributes:
        table: of items, or of the stages of a plan.
        lines: below it.
        content: the same for programs.
        waiting_seconds: of a plan: estimated CPU seconds of what is still to run, at most.
    """

    table: Table
    lines: tuple[str, ...]
    content: Any
    waiting_seconds: float = 0.0


def list_items(paper: str | None = None, why: bool = False) -> Listing:
    """List the items of one paper or of all; a paper none of whose items runs takes one line, unless it is asked for.

    Args:
        paper: key of a paper, in any case; None for all.
        why: also say why planned items do not run yet.

    Raises:
        UserError: there is no such paper, or this is no project's root.
    """
    own = is_paper_of_own(paper or "")
    every = _own() if own else known_items()
    only = named_paper(paper, every) if paper else None
    found = {key: item for key, item in every.items() if only in (None, item.paper)}
    words = {key: [_word(item, scale) for scale in SCALES] for key, item in found.items()}
    folded = {} if only or why else _waiting_papers(found, words)
    shown = {key: item for key, item in found.items() if item.paper not in folded}
    table = _items_table(counted(len(found), "item"), [*(key.replace("/", " ") for key in shown), *folded], why)
    for key, item in shown.items():
        reason = f"\n[dim]{escape(item.planned)}[/]" if why and item.planned else ""
        table.add_row(key.replace("/", " "), f"{escape(item.title)}{reason}", *(SYMBOLS[word] for word in words[key]))
    for key, count in folded.items():
        table.add_row(key, f"[dim]{counted(count, 'item')}[/]", *[SYMBOLS["planned"]] * len(SCALES))
    hints = tuple(f"leaklab items {key}: lists the items of {key}, none of which runs yet" for key in folded)
    if own_files() and not paper:
        hints = (*hints, f"leaklab items {PAPER}: lists your own, from {FOLDER}")
    return Listing(table, (*hints, _counts(found, words)), [_for_programs(found[key], words[key]) for key in found])


def _own() -> dict[str, KnownItem]:
    from leaklab.planning.own_items import own_items

    return known(own_items())


def _word(item: KnownItem, scale: Scale) -> str:
    return "done" if item.scales[scale].done else item.scales[scale].word


def counted(number: int, word: str) -> str:
    """Return a number with its word: ``1 item``, ``2 items``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _for_programs(item: KnownItem, words: Sequence[str]) -> dict[str, Any]:
    scales = {
        scale: {"state": word, "reason": "" if word == "done" else item.scales[scale].reason}
        for scale, word in zip(SCALES, words, strict=True)
    }
    return {"paper": item.paper, "item": item.item, "kind": item.kind, "title": item.title, "scales": scales}


def _items_table(title: str, names: Sequence[str], why: bool) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, expand=True, padding=(0, 1, 0, 0))
    table.add_column("item", no_wrap=True, min_width=max(map(len, names)))
    table.add_column("title", no_wrap=not why, overflow="ellipsis", ratio=1)
    for scale in SCALES:
        table.add_column(scale, no_wrap=True, min_width=WIDEST)
    return table


def _waiting_papers(items: Mapping[str, KnownItem], words: Words) -> dict[str, int]:
    """Return the papers none of whose items runs at any scale, with the number of their items."""
    counts = Counter(item.paper for item in items.values())
    running = {items[key].paper for key, own in words.items() if set(own) != {"planned"}}
    return {paper: count for paper, count in counts.items() if paper not in running}


def _counts(items: Mapping[str, KnownItem], words: Words) -> str:
    running = sum(item.made for item in items.values())
    done = (f"{sum(own[k] == 'done' for own in words.values())} at {scale}" for k, scale in enumerate(SCALES))
    return f"{running} of {counted(len(items), 'item')} can be run; results here: {', '.join(done)}"
