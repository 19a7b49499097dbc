"""Models that are read from many files, each read anew only where its bytes or our code have changed.

To read the YAML of all items takes 50 times what it takes to validate them.
"""

import hashlib
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from leaklab.records.kept_json import hash_of_package, keep_json, key_of, read_kept_json
from leaklab.records.record import Record

Model = TypeVar("Model", bound=Record)


def versions() -> tuple[str, ...]:
    """Return what decides, beside our code, how a file is read and validated."""
    return hash_of_package(), platform.python_version(), pydantic.VERSION, yaml.__version__


def read_models(paths: Iterable[Path], model: type[Model], read: Callable[[Path], Model], file: Path) -> list[Model]:
    """Return what ``read`` makes of each file, in their order.

    Args:
        paths: of the files.
        model: that ``read`` returns.
        read: is called where the bytes of a file are not those that it read before.
        file: where what it returned is kept.

    Raises:
        UserError: ``read`` does.
    """
    key = key_of([*versions(), model.__qualname__])
    before: dict[str, tuple[str, Any]] = read_kept_json(file, key) or {}
    now: dict[str, tuple[str, Any]] = {}
    found = []
    for path in paths:
        name, digest = str(path), _digest(path)
        if digest and name in before and before[name][0] == digest:
            now[name] = before[name]
            found.append(model.model_validate(before[name][1]))
            continue
        found.append(read(path))
        if digest and _digest(path) == digest:  # it was not written meanwhile
            now[name] = digest, found[-1].model_dump(mode="json", by_alias=True, exclude_unset=True)
    if now.keys() != before.keys() or any(now[name] is not before[name] for name in now):
        keep_json(file, key, now)
    return found


def _digest(path: Path) -> str:
    """Return what the file's bytes hash to; empty where it cannot be read, which ``read`` says better."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
