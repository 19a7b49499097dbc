"""Published results against a commit, for what hashes alone cannot show: who changes a file can change its records."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leaklab.items.items import ITEMS
from leaklab.planning.plan import Plan, result_files
from leaklab.provenance import packing
from leaklab.records.config import SCALES, Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_bytes
from leaklab.records.git import NoCheckoutError, asked
from leaklab.records.ledger import Entry, Ledger
from leaklab.records.walk import files_below

PUBLISHED = ("results", "figures")


@dataclass(frozen=True)
class Compared:
    """What was compared with a commit.

    Attributes:
        commit: its full name.
        files: published files of the commit.
        differences: a line for each file that is changed, missing or not in the commit.
    """

    commit: str
    files: int
    differences: tuple[str, ...]


def compare(revision: str) -> Compared:
    """Compare what is published in this folder with a commit, byte by byte.

    Args:
        revision: any name of a commit that git knows.

    Raises:
        UserError: git is missing or refuses, this is no checkout, or there is no such commit.
    """
    commit = _commit(revision)
    lines = _parts("ls-tree", "-r", "-z", commit, "--", *PUBLISHED)
    kept = {path: facts.split()[2] for facts, path in (line.split("\t", 1) for line in lines)}
    here = {
        *_parts("ls-files", "-z", "--", *PUBLISHED),
        *_parts("ls-files", "-z", "--others", "--exclude-standard", "--", *PUBLISHED),
    }
    present = sorted(path for path in {*kept, *here} if Path(path).is_file() and not Path(path).is_symlink())
    return Compared(commit, len(kept), tuple(_differences(commit[:12], kept, present, _hashes(present))))


def _differences(
    name: str, kept: Mapping[str, str], present: Sequence[str], hashes: Mapping[str, str]
) -> Iterator[str]:
    for path in sorted({*kept, *present}):
        if path not in hashes:
            yield f"{path}: {name} has it, and it is not here"
        elif path not in kept:
            yield f"{path}: not in {name}"
        elif kept[path] != hashes[path]:
            yield f"{path}: not what {name} has"


def _hashes(paths: Sequence[str]) -> dict[str, str]:
    """Return the names that git gives to the bytes of files, no filter applied."""
    if any("\n" in path for path in paths):
        raise UserError("a published file has a line break in its name: rename it")
    given = os.fsencode("\n".join(paths))
    found = asked("hash-object", "--no-filters", "--stdin-paths", given=given).decode() if paths else ""
    return dict(zip(paths, found.split(), strict=True))


def _commit(revision: str) -> str:
    """Return the full name of a commit."""
    try:
        asked("rev-parse", "--git-dir")  # so that what git has against the folder is not taken for a missing commit
    except NoCheckoutError as error:
        raise UserError(f"{error}, so nothing can be compared with '{revision}': run it in a checkout") from None
    try:
        return asked("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except UserError:
        raise UserError(
            f"no commit '{revision}' here: name a commit that `git log` shows, or fetch it with `git fetch`"
        ) from None


def _parts(*arguments: str) -> list[str]:
    return [os.fsdecode(part) for part in asked(*arguments).split(b"\0") if part]


# Result files that are not what a checkout should hold: files without a record, and results that were lost.

JUDGEMENT = "judgement.run.json"
WRITTEN = "README.md"
"""Text about results, made with the report, whose record is not in git; a test makes it again and compares."""

ITEM_READERS = ("make_table", "make_figure")
"""What reads an item for one scale, and none of its words."""


def items_read(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the files of items that a table or figure was made from, with the recorded SHA-256."""
    if entry.rule in ITEM_READERS and {"paper", "item", "scale"} <= entry.content["spec"].keys():
        yield from ((path, text) for path, text in entry.inputs.items() if Path(path).is_relative_to(ITEMS))


def kept_at(spec: Mapping[str, Any], recorded: str) -> Path:
    """Return where the text is kept that the table or figure of a spec was made from, if the item was edited since.

    Args:
        spec: of the record: paper, item and scale.
        recorded: SHA-256 of the text, as hex.
    """
    return Path("results", spec["scale"], spec["paper"], f"{spec['item']}.{recorded[:12]}.yaml")


def faults(plan: Plan, ledger: Ledger) -> list[str]:
    """Return a line for each result file without a record, for each that is missing, and for archives with faults."""
    packed = (line for scale in SCALES for line in packing.faults(plan.ready(scale), scale))
    return [*_unrecorded(plan, ledger), *_missing(plan, ledger), *packed]


def _unrecorded(plan: Plan, ledger: Ledger) -> Iterator[str]:
    known = {*ledger.makers, *(entry.path.as_posix() for entry in ledger.entries)}
    # the records of table and figure name what is in it
    known.update(str(packing.archive_of(item, scale)) for item in plan.items.values() for scale in SCALES)
    known.update(str(kept_at(entry.content["spec"], text)) for entry in ledger.entries for _, text in items_read(entry))
    papers = sorted({item.paper for item in plan.items.values()})
    for folder in (Path(kind, scale) for kind in ("results", "figures") for scale in SCALES):
        for place in (folder, *(folder / paper for paper in papers)):
            for file in sorted((ledger.root / place).glob("*")):
                name = file.relative_to(ledger.root).as_posix()
                if file.is_file() and not file.name.startswith(".") and name not in known and file.name != WRITTEN:
                    yield f"{name}: no record says how it was made: delete it and run snakemake again"


def _missing(plan: Plan, ledger: Ledger) -> Iterator[str]:
    """A scale whose claims were judged has the files of all its items, and what its records name."""
    results = {f"{kind}/{scale}/" for kind in ("results", "figures") for scale in SCALES}
    named = {path for entry in ledger.entries for path in (*entry.inputs, *entry.outputs)}
    wanted = {path for path in named if any(path.startswith(place) for place in results)}
    for scale in SCALES:
        if (ledger.root / "results" / scale / JUDGEMENT).is_file():
            wanted.update(str(path) for item in plan.ready(scale) for path in result_files(item, scale).values())
    for path in sorted(wanted):
        if not (ledger.root / path).is_file():
            yield f"{path}: missing, although the results that belong to it are here: run snakemake again"


# Records of what was made again and came out the same: the committed one stays, so that nothing new is a new file.

SAID = ("format", "rule", "spec", "code", "device", "facts", "inputs", "outputs")
"""What a record says of its files; the rest says when, where and at which cost they were made."""


def keep_committed(scale: Scale, root: Path = Path()) -> Iterator[str]:
    """Put back each committed record of a scale that says the same of its files as the one here, and yield a line.

    Args:
        scale: whose results and figures.
        root: a checkout; in a folder that is none everything stays as it is.
    """
    places = [f"{kind}/{scale}" for kind in ("results", "figures")]
    try:
        asked("log", "--max-count=1", "--format=%H", root=root)
        changed = asked("diff", "-z", "--name-only", "--relative", "HEAD", "--", *places, root=root)
    except NoCheckoutError:
        return
    except UserError as error:
        yield f"records stay as they are made now: {error}"
        return
    names = {name.decode(errors="surrogateescape") for name in changed.split(b"\0") if name.endswith(b"run.json")}
    for file in (file for place in places for file in files_below(root / place)):
        name = file.relative_to(root).as_posix()
        if name in names and (committed := _committed(name, root)) and _same(committed, file):
            write_bytes(file, committed)
            yield f"{name}: as it was committed: what was made again came out the same"


def _committed(name: str, root: Path) -> bytes:
    try:
        return asked("show", f"HEAD:./{name}", root=root)
    except UserError:  # it is new
        return b""


def _same(committed: bytes, file: Path) -> bool:
    try:
        return _said(json.loads(committed)) == _said(read_json(file))
    except (UserError, ValueError, AttributeError):
        return False


def _said(record: Mapping[str, Any]) -> list[Any]:
    return [record.get(key) for key in SAID]
