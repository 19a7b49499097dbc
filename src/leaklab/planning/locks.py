"""Snakemake's locks of a folder in which several calls work at a time, each on files of its own."""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

MODULE, KIND = "snakemake.persistence.file", "FilePersistence"


def keep_to_own_locks() -> None:
    """Let this process make and remove its own locks only.

    By itself Snakemake (9.27) removes the folder of all locks when a call ends. That takes the locks of those that
    still work, and a call that is about to write its own, or reads those of others, ends with a traceback.
    """
    with suppress(ImportError, AttributeError):  # an older Snakemake keeps its locks elsewhere
        mend(getattr(importlib.import_module(MODULE), KIND))


def mend(kind: Any) -> None:
    """Mend the class that keeps Snakemake's locks as files."""
    read, write, delete = kind._read_locks, kind._write_locks, kind._delete_locks

    def read_locks(self: Any) -> Iterator[tuple[str, str]]:
        while True:
            with suppress(FileNotFoundError):  # the call whose lock it was has ended meanwhile
                return iter(list(read(self)))

    def write_locks(self: Any, lock_type: str, keys: Iterable[str]) -> None:
        Path(self._lockdir).mkdir(parents=True, exist_ok=True)
        write(self, lock_type, keys)

    def delete_locks(self: Any) -> None:
        for file in self._lockfile.values():
            Path(file).unlink(missing_ok=True)
        self._lockfile.clear()
        with suppress(OSError):  # others have locks there
            Path(self._lockdir).rmdir()

    kind._read_locks, kind._write_locks, kind._delete_locks = read_locks, write_locks, delete_locks
    kind.cleanup_locks = delete  # `snakemake --unlock` means all of them
