"""What MkDocs is told besides ``mkdocs.yml``: pages and files of the checkout that lie outside of ``docs``.

A page links to ``../config/README.md`` as it does where it is read beside the code. Here every file that a page of the
site links to becomes part of the site, under the name that it has in the checkout, and links are those of the site.
"""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"
OUTSIDE = ("benchmarks", "config", "profiles")
"""Folders of the checkout whose Markdown pages are pages of the site."""
LINK = re.compile(r"(\]\(|<img [^>]*?src=\"|<a [^>]*?href=\")([^)\s\"#:]+)(?=[)#\"])")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out the patterns of the navigation: a paper more needs no line there."""
    config.nav = list(_written_out(config.nav or []))
    return config


def _written_out(entries: list[Any]) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, dict):
            yield {
                title: list(_written_out(inner)) if isinstance(inner, list) else inner for title, inner in entry.items()
            }
        elif "*" in entry:
            yield from sorted(name for name in _pages() if fnmatch(name, entry))
        else:
            yield entry


def _pages() -> Iterator[str]:
    """Yield the names that pages have in the site."""
    for folder in (DOCS, *OUTSIDE):
        for path in (ROOT / folder).rglob("*.md"):
            place = path.relative_to(ROOT)
            if not any(part.startswith(".") for part in place.parts):  # such as the environments of peers
                yield in_site(place.as_posix())


def in_site(path: str) -> str:
    """Return the name in the site of a file of the checkout."""
    return path.removeprefix(f"{DOCS}/")


def in_checkout(name: str) -> str:
    """Return the path in the checkout of a file of the site."""
    inside = (ROOT / DOCS / name).exists()
    return f"{DOCS}/{name}" if inside else name


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of ``docs``, and what any page links to."""
    for name in sorted(set(_pages())):
        if name not in files.src_uris:
            files.append(_file(name, config))
    for page in [one for one in files if one.src_uri.endswith(".md")]:
        text = (ROOT / in_checkout(page.src_uri)).read_text(encoding="utf-8")
        for target in _targets(text, page.src_uri):
            if target not in files.src_uris and (ROOT / target).is_file():
                files.append(_file(target, config))
    return files


def _file(name: str, config: MkDocsConfig) -> File:
    return File.generated(config, name, abs_src_path=str(ROOT / name))


def _targets(text: str, page: str) -> Iterator[str]:
    for part in FENCED.split(text)[::2]:
        for found in LINK.finditer(part):
            yield _target(found[2], page)


def _target(link: str, page: str) -> str:
    """Return the name in the site of what a page of the site links to."""
    folder = posixpath.dirname(in_checkout(page))
    return in_site(posixpath.normpath(posixpath.join(folder, link)))


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links those of the site."""

    def linked(found: re.Match[str]) -> str:
        target = _target(found[2], page.file.src_uri)
        return found[1] + posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")

    parts = FENCED.split(markdown)
    return "".join(part if index % 2 else LINK.sub(linked, part) for index, part in enumerate(parts))
