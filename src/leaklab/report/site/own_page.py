"""The page of one's own items, ``results/<scale>/mine/index.html``: apart from the report, which knows none of them."""

import html
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from leaklab.items.items import Item
from leaklab.planning.names import PAPER
from leaklab.planning.own_items import guests_of, is_own
from leaklab.planning.plan import result_files
from leaklab.records.config import Scale
from leaklab.records.files import write_text
from leaklab.report.numbers.results import ResultTable
from leaklab.report.tables.layout import lay_out
from leaklab.report.tables.tables import page_table

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
"""
UP = Path("../../..")
"""From the page to the folder in which results and figures lie."""


def write_own_pages(items: Mapping[str, Item], asked: Mapping[Scale, Iterable[str] | None]) -> Iterator[Path]:
    """Write the page of each scale at which one's own items were asked for, from what is there, and yield it.

    Args:
        items: by key.
        asked: scale -> keys of the items that were asked for; None for all that is published.

    Raises:
        UserError: a table is damaged.
    """
    for scale, keys in asked.items():
        if any(is_own(items[key]) for key in keys or () if key in items):
            shown = [one for one in items.values() if is_own(one) and result_files(one, scale)["csv"].is_file()]
            path = Path("results", scale, PAPER, "index.html")
            write_text(path, _page(scale, shown))
            yield path


def _page(scale: Scale, items: Iterable[Item]) -> str:
    style = files("leaklab.report.site").joinpath("templates/style.css").read_text(encoding="utf-8")
    sections = "\n".join(_section(scale, item) for item in items)
    title = f"Items of my own, scale {scale}"
    return (
        f'{HEAD}<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main id="main">\n<h1>{title}</h1>\n'
        "<p>None of them is in a published table, in coverage or in findings.</p>\n"
        f"{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(scale: Scale, item: Item) -> str:
    made = result_files(item, scale)
    lines = [f'<section id="{item.item}">', f"<h2>{html.escape(item.title)}</h2>"]
    lines += [f"<p>{html.escape(text)}</p>" for text in (item.shows, item.reading) if text]
    if item.table:
        grid = lay_out(item.table, ResultTable.read(made["csv"]))
        lines.append(f'<div class="scroll">{page_table(grid, item.title)}</div>')
    if made["png"].is_file():
        lines.append(f'<figure><img src="{UP / made["png"]}" alt="{html.escape(item.shows or item.title)}"></figure>')
    used = "".join(f"<li><code>{name}</code>, digest <code>{digest}</code></li>" for name, digest in guests_of(item))
    lines.append(f"<p>Guests:</p><ul>{used}</ul>" if used else "<p>No guests.</p>")
    present = [made[name] for name in ("csv", "markdown", "pdf") if made[name].is_file()]
    links = ", ".join(f'<a href="{UP / one}">{one.name}</a>' for one in present)
    return "\n".join([*lines, f'<p class="downloads">Files: {links}</p>', "</section>"])
