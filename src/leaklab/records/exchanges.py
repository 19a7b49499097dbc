"""Exchanges of somebody's training on disk: what a client was given and what it sent, a folder each.

``exchange-000017`` holds ``before.safetensors``, ``sent.safetensors`` and ``exchange.json``. It is written aside and
renamed, so that a kill leaves no half of one, and the new name is that of a free number, so that clients and processes
share a folder without locks. All this is imported by trainings of others, so it imports little.
"""

import errno
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

from leaklab.records.errors import UserError

SCHEMA = "leaklab-exchange/1"
MANIFEST, BEFORE, SENT = "exchange.json", "before.safetensors", "sent.safetensors"
FINISHED = re.compile(r"exchange-(\d{6,})")
UNFINISHED = re.compile(r"\.part-(\d+)-\d+-[0-9a-f]+")
Sends = Literal["gradient", "delta", "weights"]
"""What a client sends: the gradient of its one step, weights after minus before, or the weights themselves."""
Limit = int | str | None
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
          "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
          "bool": "BOOL"}  # fmt: skip
_CHUNK = 1 << 19
_sizes: dict[tuple[str, int], int] = {}


@dataclass(frozen=True)
class Bounds:
    """Which exchanges are kept: those of every n-th round, while a folder has room. The oldest stay.

    Attributes:
        every: from a round that is kept to the next.
        number: most exchanges of the folder; None for any number.
        size: most bytes of the folder, with what is being written; None for any size.
    """

    every: int = 1
    number: int | None = None
    size: int | None = None

    @classmethod
    def of(cls, every: int, limit: Limit) -> "Bounds":
        """Read ``every`` and ``limit`` as users write them.

        Args:
            every: at least 1.
            limit: exchanges (``200``), bytes (``"10 GB"``; KB, MB, GB, TB of powers of 1000), or None for no bound.

        Raises:
            UserError: one of them is none of that.
        """
        if not isinstance(every, int) or every < 1:
            raise UserError(f"every={every!r}: give the number of rounds from one recorded to the next, 1 or more")
        if limit is None:
            return cls(every)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return cls(every, number=limit)
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]B)\s*", limit) if isinstance(limit, str) else None
        if found is None or not float(found[1]):
            raise UserError(f"limit={limit!r}: give a number of exchanges, bytes as '10 GB', or None for no bound")
        return cls(every, size=int(float(found[1]) * _UNITS[found[2]]))

    def wants(self, number: int | None) -> bool:
        """Return whether a round is kept, counted from 0; one without a number is."""
        return number is None or number % self.every == 0


def keep(
    folder: Path, before: Mapping[str, Any], sent: Mapping[str, Any], known: Mapping[str, Any], bounds: Bounds
) -> Path | None:
    """Write one exchange and return its folder; None where the limit is reached.

    Args:
        folder: of all exchanges (``prepare``).
        before: what the client was given.
        sent: what it sent.
        known: the other keys of ``exchange.json``; values that are no JSON are left out by their type.
        bounds: of the folder.

    Raises:
        OSError: the disk is full, read-only, ...
        TypeError: an array has a type that safetensors has not.
    """
    parts = {BEFORE: _pieces(before), SENT: _pieces(sent)}
    manifest = {
        "schema": SCHEMA,
        "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        **{key: plain(value) for key, value in known.items()},
        "names": {BEFORE: list(before), SENT: list(sent)},
        "files": dict.fromkeys(parts, "0" * 8),
    }
    size = len(_text(manifest)) + sum(len(piece) for pieces in parts.values() for piece in pieces)
    aside = folder / f".part-{size}-{os.getpid()}-{secrets.token_hex(6)}"
    aside.mkdir()
    try:
        if _has_room(folder, bounds):
            manifest["files"] = {name: _written(aside / name, pieces) for name, pieces in parts.items()}
            _written(aside / MANIFEST, [memoryview(_text(manifest))])
            for name in _free(folder, bounds):
                if _renamed(aside, folder / name):
                    return folder / name
        return None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes by their length, arrays and whatever else by their type: they hold data."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    single = getattr(value, "shape", None) == () and hasattr(value, "item")
    return plain(value.item()) if single else f"<{type(value).__name__}>"


def _text(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode(errors="replace")


def _pieces(arrays: Mapping[str, Any]) -> list[memoryview]:
    """Return what makes a safetensors file: no copies of values in memory, and names may share them (tied weights)."""
    import numpy as np

    held = {}
    for name, value in arrays.items():
        array = value.detach().cpu().contiguous() if hasattr(value, "detach") else np.asarray(value, order="C")
        kind = str(array.dtype).removeprefix("torch.")
        if kind not in _TYPES:
            raise TypeError(f"tensor '{name}' is of type {kind}, which safetensors does not have")
        held[name] = (_TYPES[kind], list(array.shape), _bytes(array), array.dtype.itemsize)
    header: dict[str, Any] = {}
    end = 0
    # the widest type first, so that each tensor begins at a multiple of its own width
    order = sorted(held, key=lambda name: -held[name][3])
    for name in order:
        kind, shape, data, _ = held[name]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [memoryview(len(text).to_bytes(8, "little") + text), *(held[name][2] for name in order)]


def _bytes(array: Any) -> memoryview:
    if hasattr(array, "detach"):
        import torch

        array = array.reshape(-1).view(torch.uint8).numpy()
    return memoryview(array.reshape(-1).view("uint8").data)


def _written(path: Path, pieces: Iterable[memoryview]) -> str:
    """Write a file and return its CRC-32 as hex."""
    summed = 0
    with path.open("wb", buffering=0) as file:
        for rest in pieces:
            while rest:
                # what was just written is still in the processor's cache when it is summed
                written = rest[: file.write(rest[:_CHUNK])]
                summed = zlib.crc32(written, summed)
                rest = rest[len(written) :]
    return f"{summed:08x}"


def checksum(path: Path) -> str:
    """Return the CRC-32 of a file as hex.

    It tells files that were mixed, cut or spoilt, for which a training should not pay the price of a digest that
    withstands forgers: who edits a file can edit what is said of it as well.
    """
    summed = 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            summed = zlib.crc32(piece, summed)
    return f"{summed:08x}"


def _has_room(folder: Path, bounds: Bounds) -> bool:
    """Return whether the exchange that is being written fits, which counts with all others that are."""
    finished, size = 0, 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if FINISHED.fullmatch(entry.name):
                finished += 1
                size += _size(entry) if bounds.size is not None else 0
            elif unfinished := UNFINISHED.fullmatch(entry.name):
                size += int(unfinished[1])
    within = bounds.number is None or finished < bounds.number
    return within and (bounds.size is None or size <= bounds.size)


def _size(entry: os.DirEntry[str]) -> int:
    key = (entry.path, entry.inode())
    if key not in _sizes:
        with suppress(FileNotFoundError):  # somebody deletes it just now
            _sizes[key] = sum(file.stat().st_size for file in Path(entry.path).iterdir())
    return _sizes.get(key, 0)


def _free(folder: Path, bounds: Bounds) -> Iterable[str]:
    taken = {int(found[1]) for path in folder.iterdir() if (found := FINISHED.fullmatch(path.name))}
    numbers = count(max(taken, default=-1) + 1) if bounds.number is None else range(bounds.number)
    return (f"exchange-{number:06d}" for number in numbers if number not in taken)


def _renamed(aside: Path, wanted: Path) -> bool:
    """Give the folder its name; False where another process was faster."""
    try:
        aside.rename(wanted)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
