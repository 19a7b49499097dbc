"""How a user may write the name of an item or a paper, and what is offered instead of a name that nothing has."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol, TypeVar

from leaklab.guests.rooms import MINE
from leaklab.records.errors import UserError

PAPER, FOLDER = "mine", MINE / "items"
"""The paper of items of one's own, and where they stand."""
OFFERED = 3
"""Names that are offered at most for one that is nearly right."""


Words = TypeVar("Words", list[str] | None, str | None)


class Named(Protocol):
    """What has the name of an item."""

    @property
    def paper(self) -> str:
        """Key of its paper."""

    @property
    def item(self) -> str:
        """Its name within the paper."""

    @property
    def key(self) -> str:
        """Both, as ``paper/item``."""


Known = TypeVar("Known", bound=Named)


def no_empty_word(words: Words) -> Words:
    """Return the words that name an item or a paper, None for none, as they are: an empty one is no name.

    Raises:
        UserError: a word is empty, as where a variable of the shell is not set; none at all would mean everything.
    """
    if any(not word.strip() for word in ([words] if isinstance(words, str) else words or [])):
        raise UserError("the name of the item or paper is empty: write it, or leave it out where all are meant")
    return words


def named_item(name: str, items: Mapping[str, Known]) -> Known:
    """Return the item called ``lrp table1``, ``lrp/table1``, ``lrp:table1`` or ``lrp-table1``, in any case.

    Raises:
        UserError: no item is called so; the line offers those that are called nearly so.
    """
    wanted = _plain(name)
    found = {_plain(key): item for key, item in items.items()}
    if wanted in found:
        return found[wanted]
    raise UserError(f"unknown item '{name}': {_offer(wanted, items)}")


def papers_of(items: Mapping[str, Named]) -> tuple[str, ...]:
    """Return the keys of the papers, in order."""
    return tuple(dict.fromkeys(item.paper for item in items.values()))


def named_paper(name: str, items: Mapping[str, Named]) -> str:
    """Return the key of a paper that was written in any case.

    Raises:
        UserError: there is no such paper; the line offers those whose names are nearly so, and tells of an item.
    """
    papers, wanted = papers_of(items), _plain(name)
    if wanted in papers:
        return wanted
    if wanted.partition("-")[0] in papers:
        raise UserError(f"'{name}' is no paper: `leaklab plan {named_item(name, items).key}` shows an item")
    near = _near_papers(wanted, items)
    meant = f"did you mean {_either(near)}? " if near else ""
    raise UserError(f"unknown paper '{name}': {meant}{'there are' if meant else 'choose from'} {', '.join(papers)}")


def own_files() -> list[Path]:
    """Return the files of one's own items, as they were written."""
    return sorted(FOLDER.glob("*.yaml"))


def is_paper_of_own(name: str) -> bool:
    """Whether what a user wrote is of his own items: ``mine``, ``mine toy``, ``mine/toy``."""
    return bool(own_files()) and _plain(name).split("-")[0] == PAPER


def complete_item(incomplete: str) -> list[str]:
    """Return papers and items, written ``lrp/table1``, that begin so, for a shell that completes; none elsewhere."""
    from leaklab.items.items import load_items

    try:
        items = load_items()
    except UserError:  # no project's folder
        return []
    keys = [*papers_of(items), *items] if "/" not in incomplete else list(items)
    return [key for key in keys if key.startswith(incomplete.lower())]


def complete_paper(incomplete: str) -> list[str]:
    """Return papers that begin so."""
    return [name for name in complete_item(incomplete) if "/" not in name]


def _plain(name: str) -> str:
    return re.sub(r"[\s:./-]+", "-", name.strip().lower())


def _offer(wanted: str, items: Mapping[str, Named]) -> str:
    """Return what to write instead: an item of that name in each paper, the nearest names, or all of a paper."""
    same = [key for key, item in items.items() if _plain(item.item) == wanted]
    if same:
        return f"did you mean {_either(same)}?"
    called: dict[str, list[str]] = {}
    for key, item in items.items():
        called.setdefault(_plain(key), []).append(key)
        called.setdefault(_plain(item.item), []).append(key)
    near = [key for match in get_close_matches(wanted, called, OFFERED, cutoff=0.8) for key in called[match]]
    if near:
        return f"did you mean {_either(list(dict.fromkeys(near))[:OFFERED])}?"
    paper = wanted.split("-")[0]
    if paper in papers_of(items):
        return f"choose from {', '.join(key for key in items if key.startswith(f'{paper}/'))}"
    if papers := _near_papers(paper, items):
        return f"did you mean a paper, {_either(papers)}? `leaklab items {papers[0]}` lists its items"
    return f"name a paper and one of its items, such as {next(iter(items))}; `leaklab items` lists them"


def _near_papers(wanted: str, items: Mapping[str, Named]) -> list[str]:
    return get_close_matches(wanted, papers_of(items), OFFERED, cutoff=0.6)


def _either(names: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
