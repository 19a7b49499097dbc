"""Records of what was made again and came out the same: the committed one stays, so that nothing new is a new file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leaklab.records import git
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_bytes
from leaklab.records.walk import files_below

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
        git.asked("log", "--max-count=1", "--format=%H", root=root)
        changed = git.asked("diff", "-z", "--name-only", "--relative", "HEAD", "--", *places, root=root)
    except git.NoCheckoutError:
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
        return git.asked("show", f"HEAD:./{name}", root=root)
    except UserError:  # it is new
        return b""


def _same(committed: bytes, file: Path) -> bool:
    try:
        return _said(json.loads(committed)) == _said(read_json(file))
    except (UserError, ValueError, AttributeError):
        return False


def _said(record: Mapping[str, Any]) -> list[Any]:
    return [record.get(key) for key in SAID]
