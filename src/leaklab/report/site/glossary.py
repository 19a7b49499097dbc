"""Abbreviations in full, where a page has them first: as the glossary of the documentation says."""

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

GLOSSARY = Path("docs/glossary.md")
LINES = re.compile(r"^\|([^|]+)\|([^|]+)\|[^|]*\|$", re.MULTILINE)
SECTION = re.compile(r"^## Abbreviations$(.*?)^## ", re.MULTILINE | re.DOTALL)


def in_full(page: str, told: set[str]) -> list[tuple[str, str]]:
    """Return the abbreviations in a part of a page that were not told before, each with its words; told are they now.

    Args:
        page: HTML.
        told: on the page already.
    """
    known = _abbreviations(GLOSSARY.absolute())
    if not known:
        return []
    # the longer ones first: HyperFL-LPM is no HyperFL
    names = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    text = Markup(page).striptags()
    found = dict.fromkeys(re.findall(rf"(?<![\w-])(?:{names})(?![\w-])", text))
    new = [name for name in found if name not in told]
    told.update(new)
    return [(name, known[name]) for name in new]


@cache
def _abbreviations(page: Path) -> dict[str, str]:
    """Return what the glossary says of each; nothing outside of a checkout."""
    section = SECTION.search(page.read_text(encoding="utf-8")) if page.is_file() else None
    lines = LINES.findall(section[1]) if section else []
    return {
        short.strip(): full.strip() for short, full in lines if set(short) - {"-", " "} and short.strip() != "short"
    }
