"""Items: the runs that their file says, or one line; nothing that was written is changed or left out in silence."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from cases.catalogs import text_of
from cases.outcomes import REFUSED, TAKEN, ensure, read_or_refused, unchanged
from cases.spoil import Draw, altered, damaged
from leaklab.items.expand import expand, expand_absent
from leaklab.items.items import Item, Paper, load_item, load_papers
from leaklab.records.config import SCALES, plain_data

ROOT = Path(__file__).parents[2] / "config/items"
SHORTEST = 4000
"""Bytes: of longer files each change reads the same and takes longer."""


@cache
def originals() -> tuple[tuple[str, str, Any], ...]:
    """Return paper, item and content of the items whose files are short."""
    files = sorted(path for path in ROOT.glob("*/*.yaml") if path.stem != "paper" and path.stat().st_size < SHORTEST)
    return tuple((path.parent.name, path.stem, yaml.safe_load(path.read_text("utf-8"))) for path in files)


def case(draw: Draw, folder: Path) -> str:
    """Read an item or a paper whose file was edited, and expand it at each scale."""
    return draw(st.sampled_from([an_item, an_item, an_item, a_paper]))(draw, folder)


def an_item(draw: Draw, folder: Path) -> str:
    """Read and expand an item; all that its file says is in what was read."""
    paper, name, content = draw(st.sampled_from(originals()))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        content = altered(content, draw)
    path = _written(folder, f"{paper}/{name}.yaml", content, draw)
    with unchanged(folder / "items"):
        item, outcome = read_or_refused(load_item, path)
        if item is None:
            return outcome
        _check_kept(path, item)
        outcomes = [_expanded(item, scale) for scale in SCALES if scale in item.scales]
    return REFUSED if REFUSED in outcomes else TAKEN


def _expanded(item: Item, scale: Any) -> str:
    runs, outcome = read_or_refused(expand, item, scale)
    _, absent = read_or_refused(expand_absent, item, scale)
    if runs is not None:
        change = item.scales[scale]
        left_out = {*change.drop, *change.absent}
        blocks = {run.block for run in runs}
        ensure(change.missing or not set(item.runs) - left_out - blocks, f"blocks without a run: {blocks}")
        ensure(not blocks & left_out, f"blocks that were left out: {blocks & left_out}")
    return REFUSED if REFUSED in (outcome, absent) else TAKEN


def a_paper(draw: Draw, folder: Path) -> str:
    """Read a folder of items with the file that says what the paper is."""
    content = {"title": "Mine", "citation": "I, 2026", "order": 9}
    if draw(st.booleans()):
        content = altered(content, draw)
    name = draw(st.sampled_from(["mine", "Mine", "small", "a b", "ä", "..x", "x" * 200, "demo", "runs", "[b]"]))
    path = _written(folder, f"{name}/paper.yaml", content, draw)
    load_papers.cache_clear()
    with unchanged(folder / "items"):
        found, outcome = read_or_refused(load_papers, folder / "items")
    load_papers.cache_clear()
    if found is not None:
        ensure(list(found) == [name], f"{list(found)} in place of {name}")
        _check_kept(path, found[name])
    return outcome


def _written(folder: Path, name: str, content: Any, draw: Draw) -> Path:
    """Write one file of items, with nothing beside it, as an editor leaves it or damaged."""
    for old in (folder / "items").glob("*/*"):
        old.unlink()
    for old in (folder / "items").glob("*"):
        old.rmdir()
    path = folder / "items" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text_of(content, draw)
    path.write_bytes(damaged(text, draw) if draw(st.integers(0, 7)) == 0 else text)
    return path


def _check_kept(path: Path, read: Item | Paper) -> None:
    """All that the file says stands in what was read, as it was written."""
    said = plain_data(path.read_text("utf-8"))
    kept = read.model_dump(mode="json", by_alias=True)
    ensure(not (lost := list(_differing(said, kept))), f"said and not kept: {lost[:3]}")


def _differing(said: Any, kept: Any, place: str = "") -> Any:
    if isinstance(said, dict) and isinstance(kept, dict):
        if "settings" in kept and "settings" not in said:  # a plug-in in its short form
            kept = {**kept["settings"], **kept}
        for key, value in said.items():
            if key in kept:
                yield from _differing(value, kept[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}"
    elif isinstance(said, list) and isinstance(kept, list) and len(said) == len(kept):
        for number, (one, other) in enumerate(zip(said, kept, strict=True)):
            yield from _differing(one, other, f"{place}.{number}")
    elif (type(said) is not type(kept) and not (_number(said) and _number(kept))) or said != kept:
        yield f"{place}: {said!r:.60} became {kept!r:.60}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
