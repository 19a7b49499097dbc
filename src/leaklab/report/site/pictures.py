"""Pictures and files of an item as the site keeps them: copies, lighter ones of heavy figures, small ones for tiles."""

from collections.abc import Iterable
from pathlib import Path

from PIL import Image

from leaklab.records.errors import UserError
from leaklab.report.site.files_beside import FilesBeside, Shape
from leaklab.report.site.pages import ItemPage

TILE = Shape(680, 400)
"""A tile's picture on a dense screen, and how much of its top is seen at most."""
SCREEN = Shape(1400)
"""The lighter picture: as wide as a page on a screen, and a half more."""
HEAVY = 300_000
"""Bytes from which on a page shows the lighter picture, and leads to the whole one."""


def copied_name(page: ItemPage, path: Path) -> str:
    """Return where the site keeps a copy of an item's figure or download, relative to the site's folder.

    Files of runs have the same name in each run, so they are called after the run.
    """
    return f"files/{page.name}/{f'{path.parent.name}-' if 'runs' in path.parts else ''}{path.name}"


def shown_name(page: ItemPage, path: Path) -> str:
    """Return the picture that a page shows: the copy, or the lighter one of a heavy figure."""
    copy = copied_name(page, path)
    return str(Path(copy).with_suffix(".webp")) if _is_heavy(path) else copy


def thumbnail_name(page: ItemPage) -> str:
    """Return where the site keeps the small picture of an item, relative to the site's folder."""
    return f"files/{page.name}/thumbnail.webp"


def size_of(path: Path) -> tuple[int, int]:
    """Return width and height of a picture in pixels, for the space that a page leaves before it is there.

    Raises:
        UserError: there is no such picture.
    """
    if not path.is_file():
        raise _missing(path)
    with Image.open(path) as picture:
        return picture.size


def begin(picture: Path, beside: FilesBeside) -> None:
    """Begin to make what the site shows of an item's figure, before its page is known."""
    if picture.is_file():
        beside.begin(picture, TILE)
        if _is_heavy(picture):
            beside.begin(picture, SCREEN)


def copies(page: ItemPage, folder: Path, beside: FilesBeside) -> Iterable[Path]:
    """Ask for the copies of an item's files, and yield each.

    Args:
        page: of the item.
        folder: of the site.
        beside: what writes them.

    Raises:
        UserError: a figure or download does not exist.
    """
    shown = (*page.pictures, *page.partitions)
    pictures = [path for picture in shown for path in (picture.path, picture.pdf) if path is not None]
    for source in (*pictures, *(download.path for download in page.downloads)):
        if not source.is_file():
            raise _missing(source)
        beside.copy(source, folder / copied_name(page, source))
        yield folder / copied_name(page, source)
    lighter = [(one.path, SCREEN, shown_name(page, one.path)) for one in shown if _is_heavy(one.path)]
    lighter += [(one.path, TILE, thumbnail_name(page)) for one in page.pictures[:1]]
    for source, shape, name in lighter:
        beside.write_lighter(source, shape, folder / name)
        yield folder / name


def _missing(path: Path) -> UserError:
    return UserError(f"report: {path} is missing: run snakemake for it first")


def _is_heavy(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > HEAVY
