"""The compiled part of ``lanes``: built once for a machine by its own compiler, and kept.

A machine without a compiler does without: its networks train in the forms that need none, with the same numbers but for
rounding. Whatever goes wrong here is told once, in the log, and never stops a job.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from leaklab.records.files import write_text

log = logging.getLogger("leaklab")

FILES = ("arithmetic.hpp", "layers.hpp", "network.hpp", "own.hpp", "trials.hpp", "entries.cpp")
DIGEST = "d286711c989cfcda9b3f68dd103a169264f96e000469d4e4ee8125bdd38ad31c"
"""SHA-256 of the sources; the digest of a job's code (``records/code.py``) sees them by it."""
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-w")
COMPILER, OFF = "LEAKLAB_COMPILER", "off"
"""Environment variable: a compiler's name in place of the usual ones, or ``off`` for none."""
FACT = "compiled_steps"
"""Of a job's record: whether its networks took compiled steps."""
USUAL = ("c++", "g++", "clang++")
LIMIT = 300.0
REFUSED = ".refused"
"""Suffix of the file that says why a library was built and not kept."""
Check = Callable[[Path], str]
CPU_LINES = ("model name", "flags", "CPU part", "Features")


class NoLibraryError(Exception):
    """Why there is no library: one line."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the library of this machine, built if it is not kept; None where it cannot be had."""
    try:
        return _loaded(kept_or_built())
    except (NoLibraryError, OSError) as error:
        log.info("convolutional networks train without compiled steps: %s", error)
        return None


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # damaged since it was built
        path.unlink(missing_ok=True)
        return ctypes.CDLL(str(kept_or_built()))


def times_asked() -> int:
    """Return how often networks of this process have asked for compiled steps."""
    known = library.cache_info()
    return known.hits + known.misses


def kept_or_built(check: Check | None = None) -> Path:
    """Return the file of the library.

    Args:
        check: what is wrong with a library that was just built; None: ``what_is_wrong``.

    Raises:
        NoLibraryError: there is no compiler, or it fails, or something is wrong with what it built, now or before.
    """
    sources = [Path(__file__).with_name(name) for name in FILES]
    if digest(sources) != DIGEST:
        raise NoLibraryError("its sources are not those of this version: install the project again")
    compiler = _compiler()
    path = _folder() / f"lanes-{_key(compiler)}.so"
    if not path.is_file():
        _build(compiler, sources[-1], path, check or what_is_wrong)
    return path


def digest(sources: list[Path]) -> str:
    """Return the SHA-256 of some files, one behind the other."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def what_is_wrong(path: Path) -> str:
    """Return why a library is of no use here, nothing if it is: other gradients than torch's, or slower ones."""
    from leaklab.models.lanes.check import agrees, is_faster

    built = ctypes.CDLL(str(path))
    if not agrees(built):
        return "computes other gradients than torch"
    return "" if is_faster(built) else "is slower than torch on this processor"


def _compiler() -> str:
    told = os.environ.get(COMPILER, "").strip()
    if told == OFF:
        raise NoLibraryError(f"{COMPILER} is {OFF}")
    for name in (told,) if told else USUAL:
        if found := shutil.which(name):
            return found
    raise NoLibraryError(f"no compiler {told!r} ({COMPILER})" if told else f"no C++ compiler ({', '.join(USUAL)})")


def _folder() -> Path:
    """Return the folder of what is built, made if it is not there."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leaklab"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # pathlib's answer to a user without a home
        raise NoLibraryError(f"no folder for what is built: {error}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NoLibraryError(f"{folder} may not be written: set XDG_CACHE_HOME to a folder that may")
    return folder


def _key(compiler: str) -> str:
    """Return what a built library depends on: sources, compiler, flags, processor (nodes may share a home)."""
    done = _run(compiler, "--version")
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = "\n".join(sorted({line for line in lines if line.startswith(CPU_LINES)}))
    parts = [DIGEST, str(Path(compiler).resolve()), done.stdout, *FLAGS, processor]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(compiler: str, source: Path, path: Path, check: Check) -> None:
    refused = path.with_suffix(REFUSED)
    if refused.is_file():
        raise NoLibraryError(refused.read_text(encoding="utf-8"))
    log.info("%s builds the steps of convolutional networks, once for this machine", compiler)
    with tempfile.TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as folder:
        built = Path(folder) / path.name
        done = _run(compiler, *FLAGS, "-o", str(built), str(source))
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            raise NoLibraryError(f"{compiler} failed: {last}")
        if wrong := check(built):
            write_text(refused, f"what {compiler} built {wrong} (delete {refused} to try again)")
            raise NoLibraryError(refused.read_text(encoding="utf-8"))
        built.replace(path)


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoLibraryError(f"{command[0]} failed: {error}") from error


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    log.info("convolutional networks train with %s", "compiled steps" if library() else "torch alone")
