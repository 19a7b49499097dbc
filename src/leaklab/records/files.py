"""Reading and writing artefacts: safetensors, parquet, csv and json only, written aside and then renamed."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leaklab.records.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor


# pandas rebuilds a table by the notes of a Parquet file, which may name any type and hold any text
DAMAGE_OF_TABLES = (ArithmeticError, AttributeError, LookupError, RuntimeError, SyntaxError, TypeError, ValueError)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is renamed to ``path``, on failure removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8)."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content``."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UserError: the file is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run snakemake for it first") from None
    except RecursionError:
        raise UserError(f"{path} is damaged (nested too deeply): delete it and run snakemake again") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run snakemake again") from None


def write_tensors(path: Path, tensors: Mapping[str, "Tensor"], metadata: Mapping[str, str] | None = None) -> None:
    """Write named tensors as safetensors."""
    from safetensors.torch import save

    # bytes first: safetensors' own file writer hides a full disk behind an error of its own
    content = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, dict(metadata or {}))
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: Path) -> dict[str, "Tensor"]:
    """Read all tensors of a safetensors file.

    Raises:
        UserError: the file is missing or damaged.
    """
    from safetensors.torch import load_file

    with _safetensors_errors(path):
        return dict(load_file(path))


def read_forms(path: Path) -> dict[str, tuple[str, list[int]]]:
    """Read the type (``U8``, ``I64``, ``F32``) and the shape of every tensor of a safetensors file, and no values.

    Raises:
        UserError: the file is missing or damaged.
    """
    from safetensors import safe_open

    with _safetensors_errors(path), safe_open(path, framework="np") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()}


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, "NDArray[Any]"]:
    """Read some tensors of a safetensors file as numpy arrays, without torch and without the rest of the file.

    Args:
        path: the file.
        names: tensors that it has (``read_forms``).

    Raises:
        UserError: the file is missing or damaged.
    """
    from safetensors import safe_open

    with _safetensors_errors(path), safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in names}


@contextmanager
def _safetensors_errors(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run snakemake for it first") from None
    except SafetensorError as error:
        raise UserError(f"{path} is damaged ({error}): delete it and run snakemake again") from None


def write_arrays(path: Path, arrays: Mapping[str, "NDArray[Any]"]) -> None:
    """Write named numpy arrays as a compressed npz; the same arrays give the same bytes."""
    import numpy as np

    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez_compressed(handle, allow_pickle=False, **arrays)


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as csv or parquet, by the path's suffix."""
    with atomic(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False, lineterminator="\n")


def read_table(path: Path) -> "pd.DataFrame":
    """Read a csv or parquet table.

    Raises:
        UserError: the file is missing or damaged.
    """
    import pandas as pd

    try:
        return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run snakemake for it first") from None
    except (*DAMAGE_OF_TABLES, OSError) as error:
        what = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} is damaged ({what}): delete it and run snakemake again") from None


def read_cells(path: Path, needed: Iterable[str], advice: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of a csv table as text, each with its number and its cells by column.

    Args:
        path: of the table; its first line names the columns.
        needed: columns that it has to have.
        advice: what to do about a table that is missing or wrong, e.g. ``restore it from the repository``.

    Raises:
        UserError: the file is missing, is not UTF-8, lacks a column, or a line has another number of cells.
    """
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        absent = [name for name in needed if name not in (reader.fieldnames or [])]
        if absent:
            raise UserError(f"{path} has no column {', '.join(absent)}: {advice}")
        for cells in reader:
            if None in cells or None in cells.values():
                raise UserError(f"{path}, line {reader.line_num}: the number of cells differs from the header's")
            yield reader.line_num, cells
    except FileNotFoundError:
        raise UserError(f"{path} is missing: {advice}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}): {advice}") from None
    except csv.Error as error:
        raise UserError(f"{path} is not a csv table ({error}): {advice}") from None


def sha256(path: Path) -> str:
    """Return the file's SHA-256 as hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
