"""Items of your own, ``mine/items/<item>.yaml``, which may name guests: made when they are asked for by name.

Each is read, told what it need not say (its paper is ``mine``), and written anew into ``mine/.made/mine`` with the
digests of the guests that it names. From there on it is an item like any other: nothing that plans, runs or collects
knows of guests. It stands apart at every scale, and in none of the lists of what is published.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from leaklab.data.catalog import own_datasets
from leaklab.guests.admission import admit
from leaklab.guests.places import MARK, names_of, plain
from leaklab.guests.rooms import MINE
from leaklab.items.expand import LABELS
from leaklab.items.items import FIGURES, ITEMS, Item, load_items
from leaklab.planning.checks import check_item
from leaklab.planning.names import FOLDER, PAPER, own_files
from leaklab.planning.plan import build_plan
from leaklab.records.config import SCALES, parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.records.ledger import Entry, Ledger
from leaklab.specs.stages import SPECS

MADE = MINE / ".made" / PAPER
VARIABLE = "LEAKLAB_OWN_ITEMS"
TARGET = re.compile(rf"(results|figures)/({'|'.join(SCALES)})/{PAPER}/|results/runs/")
"""What is asked for where items of one's own are meant, or may be."""
DATA = "data"
"""Stands for a room where a data set is named: a file of ``mine/data``."""
NAMED_BY_SETTINGS = {
    "metrics": {"metrics"},
    "perceptual": {"metrics"},
    "augmentation": {"data/augmentations"},
    "algorithm": {"federated/algorithms"},
    "renderer": {FIGURES},
    "dataset": {DATA},
}
"""Fields that name plug-ins, beside those of which specs say it."""
WALKED = ("renderer", "runs", "scales")
Names = Mapping[tuple[str, str], str]
"""Room and name of a guest -> its name with the digest."""


def items_of_call(main: bool, words: Iterable[str]) -> dict[str, Item]:
    """Return what a call of Snakemake plans: all items, and one's own where its words ask for any.

    So what is wrong with a guest is in nobody's way who asks for something else.

    Args:
        main: whether this is the process that the user started, which tells the others.
        words: of the command line.

    Raises:
        UserError: see ``checked_items`` and ``own_items``.
    """
    asked = any(map(TARGET.match, words)) if main else os.environ.get(VARIABLE, "1") == "1"
    os.environ[VARIABLE] = str(int(asked))
    return {**checked_items(), **(own_items() if asked else {})}


def checked_items() -> Mapping[str, Item]:
    """Return all items but one's own, none of which has text for a number, or lacks a scale that its tables need.

    Raises:
        UserError: one does, or is wrong; this is no project's root.
    """
    items = load_items()
    for item in items.values():
        check_item(item)
    return items


def file_of(item: Item) -> Path:
    """Return the file that steps read of an item of one's own."""
    return MADE / f"{item.item}.yaml"


def is_own(item: Item) -> bool:
    """Whether an item is one's own; a paper may be called so as well."""
    return item.paper == PAPER and not (ITEMS / PAPER).is_dir()


def guests_of(item: Item) -> list[tuple[str, str]]:
    """Return name and digest of the guests that an item of one's own names."""
    named = sorted({text for text in _texts({"runs": item.runs, "renderer": item.renderer}) if MARK.search(text)})
    return [(plain(text), text.rpartition("-")[2]) for text in named]


def own_items() -> dict[str, Item]:
    """Return one's own items by key, after their guests have been let in and their files made.

    Raises:
        UserError: one is wrong, or a guest is; the line names the file that was written by hand.
    """
    written = own_files()
    if not written:
        return {}
    if (ITEMS / PAPER).is_dir():
        raise UserError(f"{ITEMS / PAPER} and {FOLDER} both hold items of '{PAPER}': rename the first")
    names = {**names_of(admit()), **{(DATA, name): key for name, key in own_datasets().items()}}
    found: dict[str, Item] = {}
    for place, path in enumerate(written, 1):
        value = _completed(read_yaml(path), path, place)
        resolved = _with_digests(value, names)
        try:
            item = parse(Item, resolved, path)
            check_item(item, path)
            build_plan({item.key: item})
        except UserError as error:
            raise UserError(plain(str(error)).replace(str(ITEMS / PAPER / path.name), str(path))) from None
        _write(MADE / path.name, f"# made from {path}: edit that one\n{yaml.safe_dump(resolved, sort_keys=False)}")
        found[item.key] = item
    return found


def _write(path: Path, text: str) -> None:
    if not (path.is_file() and path.read_text(encoding="utf-8") == text):
        write_text(path, text)


def _completed(value: Any, path: Path, place: int) -> dict[str, Any]:
    """Return an item with what its place says of it, apart at every scale."""
    if not isinstance(value, dict):
        raise UserError(f"{path}: an item is a mapping of keys: title, kind, runs, ...")
    own = {"paper": PAPER, "item": path.stem}
    for key, said in own.items():
        if value.get(key, said) != said:
            raise UserError(f"{path}: {key}: leave it out, or write '{said}'")
    scales = value.get("scales", {scale: {} for scale in SCALES})
    if not isinstance(scales, dict) or not all(isinstance(one, dict) for one in scales.values()):
        raise UserError(f"{path}: scales: write what each changes: {{demo: {{set: {{rounds: 5}}}}}}")
    apart = {scale: {**change, "apart": True} for scale, change in {"paper": {}, **scales}.items()}
    return {"number": place, **value, **own, "scales": apart}


def _with_digests(item: dict[str, Any], names: Names) -> dict[str, Any]:
    """Return an item in which guests are called by name and digest; its rows call them as it does."""
    fields = dict(_rooms_of_fields())
    changed = {key: _walked(part, key, fields, names) for key, part in item.items() if key in WALKED}
    used = {one: plain(one) for one in sorted(set(_texts(changed))) if MARK.search(one)}
    cells = item.get("cells")
    if not used or not isinstance(cells, dict):
        return {**item, **changed}
    row = cells.get("row", {})
    shown = {key: _shown(source, used) for key, source in row.items()} if isinstance(row, dict) else row
    return {**item, **changed, "cells": {**cells, "row": shown}}


def _rooms_of_fields() -> Iterator[tuple[str, set[str]]]:
    """Yield each field that names a plug-in, with the rooms in which it may stand."""
    found = {field: set(rooms) for field, rooms in NAMED_BY_SETTINGS.items()}
    for kind in SPECS:
        for field, room in kind.rooms.items():
            found.setdefault(field, set()).add(room)
    yield from found.items()


def _walked(value: Any, field: str, fields: Mapping[str, set[str]], names: Names) -> Any:
    """Return a part of an item with the names of guests replaced wherever a field names plug-ins."""
    if isinstance(value, dict):
        return {key: _walked(inner, _field(str(key), field), fields, names) if key != LABELS else inner
                for key, inner in value.items()}  # fmt: skip
    if isinstance(value, list):
        return [_walked(inner, field, fields, names) for inner in value]
    found = {names[room, value] for room in fields.get(field, ()) if isinstance(value, str) and (room, value) in names}
    if len(found) > 1:
        raise UserError(f"{field}: {value}: guests of several rooms are called so: rename one")
    return found.pop() if found else value


def _field(path: str, outer: str) -> str:
    """Return the field that a key means: ``defense`` for ``defense``, ``defense.name``, and ``name`` within it."""
    parts = path.split(".")
    if parts[-1] == "name":
        parts.pop()
    return parts[-1] if parts else outer


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def _shown(source: Any, used: Mapping[str, str]) -> Any:
    """Return where a row key's value comes from, with the guests renamed as the item calls them."""
    own = source if isinstance(source, dict) else {"from": source}
    renamed = own.get("as", {})
    if not isinstance(renamed, dict):
        return source
    return {**own, "as": {**renamed, **{key: renamed.get(name, name) for key, name in used.items()}}}


# What is published knows nothing of them.


def without_own(ledger: Ledger) -> Ledger:
    """Return the records without those of one's own results, and of runs that have guests."""
    return replace(ledger, entries=tuple(entry for entry in ledger.entries if not _is_own(entry)))


def _is_own(entry: Entry) -> bool:
    folders = entry.path.parts
    of_result = folders[0] in ("results", "figures") and folders[2:3] == (PAPER,) and not (ITEMS / PAPER).is_dir()
    return of_result or any(MARK.search(text) for text in _texts(entry.content["spec"]))
