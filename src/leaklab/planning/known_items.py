"""What a list of items says of each, kept for later processes: who lists imports nothing that reads or expands items.

Only whether results are there is found out anew each time. What is kept is found by the bytes of all files of items and
of our code, so that it is never of others.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaklab.records.kept_json import KEPT, hash_of_package, keep_json, key_of, read_kept_json
from leaklab.records.scales import SCALES, Scale

if TYPE_CHECKING:
    from leaklab.items.items import Item

FILE = KEPT / "listed-items.json"
ITEMS = Path("config/items")
READERS = ("pydantic", "PyYAML")
"""Distributions that decide, beside our code, what a file of an item says."""
NOWHERE = Path("/nowhere")
"""A root below which no results are."""


@dataclass(frozen=True)
class Standing:
    """An item at a scale.

    Attributes:
        word: of its state where there are no results, as ``outputs.py::State`` has it.
        reason: why it has none.
        results: files that are there once it is done; none where it is not made at the scale.
    """

    word: str
    reason: str
    results: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all its results are here."""
        return bool(self.results) and all(Path(file).is_file() for file in self.results)


@dataclass(frozen=True)
class KnownItem:
    """What a list says of an item; the fields that an ``Item`` has too mean the same."""

    paper: str
    item: str
    kind: str
    title: str
    planned: str
    made: bool
    scales: Mapping[Scale, Standing]

    @property
    def key(self) -> str:
        """Return ``paper/item``."""
        return f"{self.paper}/{self.item}"


def known_items() -> dict[str, KnownItem]:
    """Return all items but one's own by key, in order.

    Raises:
        UserError: a file is wrong, or this is no project's root.
    """
    key = _key()
    kept = read_kept_json(FILE, key) if key else None
    if kept is None:
        from leaklab.items.items import load_items

        found = known(load_items())
        if key and key == _key():  # no file was written meanwhile
            keep_json(FILE, key, [asdict(item) for item in found.values()])
        return found
    items = (KnownItem(**{**one, "scales": _standings(one["scales"])}) for one in kept)
    return {item.key: item for item in items}


def known(items: Mapping[str, "Item"]) -> dict[str, KnownItem]:
    """Return what a list says of items, by key, in their order.

    Raises:
        UserError: one of those for whose data is said why they cannot be had is wrong.
    """
    from leaklab.planning.outputs import state_of
    from leaklab.planning.plan import SHOWN, result_files, set_up

    plan = set_up(items)
    found = {}
    for key, item in items.items():
        standings: dict[Scale, Standing] = {}
        for scale in SCALES:
            state, files = state_of(plan, item, scale, NOWHERE), result_files(item, scale)
            made = not item.planned and (scale, key) in plan.runs
            results = tuple(files[name].as_posix() for name in SHOWN) if made else ()
            standings[scale] = Standing(state.word, state.reason, results)
        found[key] = KnownItem(item.paper, item.item, item.kind, item.title, item.planned, item.made, standings)
    return found


def _standings(kept: Mapping[Scale, Mapping[str, Any]]) -> dict[Scale, Standing]:
    return {scale: Standing(one["word"], one["reason"], tuple(one["results"])) for scale, one in kept.items()}


def _key() -> str:
    """Return what decides the list; empty where a file cannot be read, which ``load_items`` says better."""
    try:
        files = [(path.as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()) for path in _files()]
    except OSError:
        return ""
    return key_of([hash_of_package(), platform.python_version(), *map(version, READERS), files])


def _files() -> Iterable[Path]:
    return sorted(ITEMS.glob("*/*.yaml"))
