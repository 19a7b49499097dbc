"""All run records of a checkout: which record made a file, and the chain behind it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.walk import files_below

PLACES = ("data/prepared", "results", "figures")


@dataclass(frozen=True)
class Entry:
    """One record: the path of its ``run.json`` and its content."""

    path: Path
    content: dict[str, Any]

    @property
    def rule(self) -> str:
        """Return the rule that ran."""
        return str(self.content["rule"])

    @property
    def inputs(self) -> dict[str, str]:
        """Return path -> sha256 of what was read."""
        return dict(self.content["inputs"])

    @property
    def outputs(self) -> dict[str, str]:
        """Return path -> sha256 of what was written."""
        return dict(self.content["outputs"])


@dataclass(frozen=True)
class Ledger:
    """The records below a project's root."""

    root: Path
    entries: tuple[Entry, ...]

    @classmethod
    def scan(cls, root: Path = Path()) -> "Ledger":
        """Read every record."""
        files = (path for place in PLACES for path in files_below(root / place))
        paths = [path for path in files if path.name.endswith("run.json")]
        return cls(root, tuple(Entry(path.relative_to(root), _record(path)) for path in paths))

    @cached_property
    def makers(self) -> dict[str, Entry]:
        """Return output path -> the record that made it."""
        return {output: entry for entry in self.entries for output in entry.outputs}

    def maker(self, path: str) -> Entry:
        """Return the record behind a file.

        Raises:
            UserError: no record names the file.
        """
        name = Path(path).as_posix().removeprefix("./")
        if name not in self.makers:
            raise UserError(
                f"{path}: no record names this file; trace a result, figure or run file that snakemake made"
            )
        return self.makers[name]

    def behind(self, path: str) -> "Ledger":
        """Return the records that a file rests on, its own first."""
        found = {entry.path: entry for _, _, entry in self.chain(path) if entry is not None}
        return Ledger(self.root, tuple(found.values()))

    def chain(self, path: str, depth: int = 0, seen: set[str] | None = None) -> Iterator[tuple[int, str, Entry | None]]:
        """Yield (depth, file, its record or None) from a file back to the raw data, each record's inputs once."""
        seen = set() if seen is None else seen
        entry = self.makers.get(path)
        yield depth, path, entry
        if entry is None or str(entry.path) in seen:
            return
        seen.add(str(entry.path))
        for needed in entry.inputs:
            yield from self.chain(needed, depth + 1, seen)


def _record(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or not {"rule", "inputs", "outputs", "spec", "code"} <= set(content):
        raise UserError(f"{path} is not a run record: delete it and run snakemake again")
    for key in ("inputs", "outputs"):
        _check_files(path, key, content[key])
    return content


def _check_files(record: Path, key: str, files: Any) -> None:
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise UserError(f"{record}: '{key}' does not map paths to checksums: delete it and run snakemake again")
    for name in files:
        if not name or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise UserError(f"{record}: '{key}' names {name!r}, a file outside the project: delete the record")
