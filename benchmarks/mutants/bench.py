"""A copy of the working tree in which one mutant after the other meets its tests; the checkout is never touched."""

import hashlib
import importlib.util
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mutants.rooms import Mutant, finders_of

CHECKOUT = Path(__file__).parents[2]
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FAILING = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
PASSED, FAILED, BROKEN = 0, 1, 2
"""What pytest ends with: all passed, a test failed, a file of tests could not be imported."""
GRACE, PATIENCE = 5, 10
Outcome = Literal["killed", "survived", "time limit", "void"]


class TrialError(RuntimeError):
    """The tests could not be run at all."""


@dataclass(frozen=True)
class Trial:
    """What the tests made of a mutant.

    Attributes:
        room: the mutant's room.
        path: its module.
        line: where it is.
        place: class and function around it.
        kind: what was done.
        before: the line as it is.
        after: the line as it was made.
        outcome: a test failed (killed) or none did (survived); ``time limit`` says neither, ``void`` that the test that
            failed also fails without a mutant.
        by: the test that failed, or the signal that ended them; of a survivor the number of files that were run.
        seconds: of the processor, for the tests.
        state: digest of the module and of its tests, by which a later hunt knows whether anything changed.
    """

    room: str
    path: str
    line: int
    place: str
    kind: str
    before: str
    after: str
    outcome: Outcome
    by: str
    seconds: float
    state: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the mutant however the lines above it move; see ``Mutant.key``."""
        return self.path, self.place, self.before, self.after


@dataclass(frozen=True)
class Bench:
    """The copy.

    Attributes:
        folder: its top.
        limit: seconds of the processor that one call of the tests may take; ten times that ends the wait for it.
    """

    folder: Path
    limit: float

    def tried(self, mutant: Mutant, first: str = "") -> Trial:
        """Return what the tests make of a mutant.

        Args:
            mutant: drawn from this very copy.
            first: the test that killed it before, which is asked first.

        Raises:
            TrialError: pytest ended in a way that says nothing about the mutant.
        """
        files = [path.as_posix() for path in finders_of(self.folder, mutant)]
        start = _spent()
        with self._harmed(mutant):
            known = first and (self.folder / first.split("::")[0]).is_file()
            status, text = self._run([first]) if known else (PASSED, "")
            if status != FAILED and files:
                status, text = self._run(files)
        outcome, by = _outcome(status, text, len(files))
        numbers = _spent() - start, self.state(mutant)
        return Trial(mutant.room.name, mutant.path.as_posix(), mutant.edit.line, mutant.edit.place, mutant.edit.kind,
                     mutant.before, mutant.after, outcome, by, *numbers)  # fmt: skip

    def state(self, mutant: Mutant) -> str:
        """Return the digest of a mutant's module and of the tests that have to find it."""
        texts = [(self.folder / path).read_bytes() for path in [mutant.path, *finders_of(self.folder, mutant)]]
        return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]

    def failing(self, tests: Iterable[str]) -> set[str]:
        """Return which of these tests fail without any mutant."""
        names = sorted({test for test in tests if (self.folder / test.split("::")[0]).is_file()})
        if not names:
            return set()
        status, text = self._run(names, "--continue-on-collection-errors", times=len(names))
        if status not in (PASSED, FAILED, BROKEN):
            raise TrialError(f"without a mutant the tests ended with {status}:\n{text[-2000:]}")
        return set(FAILING.findall(text))

    @contextmanager
    def _harmed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.path
        source = path.read_text("utf-8")
        try:
            _put(path, mutant.edit.applied(source))
            yield
        finally:
            _put(path, source)

    def _run(self, tests: Sequence[str], option: str = "-x", times: int = 1) -> tuple[int | None, str]:
        """Return pytest's exit status and what it wrote; None where the time was up."""
        limit = math.ceil(self.limit * times)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", option, *tests]
        given = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": str(self.folder / "src")}
        process = subprocess.Popen(
            command, cwd=self.folder, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit, limit + GRACE))
        try:
            text, _ = process.communicate(timeout=PATIENCE * limit)
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return None if process.returncode == -signal.SIGXCPU else process.returncode, text


def _outcome(status: int | None, text: str, files: int) -> tuple[Outcome, str]:
    if status is None:
        return "time limit", ""
    if status == PASSED:
        return "survived", str(files)
    if status < 0:
        return "killed", f"signal {-status}"
    failing = FAILING.findall(text)
    if status in (FAILED, BROKEN) and failing:
        return "killed", failing[0]
    raise TrialError(f"the tests ended with {status}:\n{text[-2000:]}")


def _spent() -> float:
    """Return the seconds of the processor of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _put(path: Path, text: str) -> None:
    """Write a module, and remove what was compiled of it: a mutant of the same second and size would not be seen."""
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def make_bench(folder: Path, limit: float, checkout: Path = CHECKOUT) -> Bench:
    """Copy the files of a checkout that git does not ignore, as they are now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = checkout / name, folder / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return Bench(folder, limit)
