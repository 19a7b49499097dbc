"""One call of the command in a process of its own, forked from this one, which has loaded what commands load."""

import ctypes
import gc
import importlib
import io
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cases.outcomes import REFUSED, TAKEN, Wrong, ensure, refused, state_of
from leaklab.fork_server import ended_as

ROOT = Path(__file__).parents[2]
FEW = {"lrp/table1", "lrp/table4"}
LIMIT = 90.0
"""Seconds."""
LONGEST = 4100
"""Characters of a refusal."""
STATUSES = {"try": (0, 1, 2, 3, 4, 5), "probe": (0, 1, 2, 3, 4, 5)}
NOBODY = 65534
NOISY = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "__main__", "lib2to3", "test"}
END_WITH_PARENT = 1
ENCODING = "PYTHONIOENCODING"
MOST_PROCESSES = 50
"""Of that user; a call that starts more has gone wild."""
CHILD, CHILD_FAILED = "the child could not become the command:", 99
DEFENSE = "def defend(gradients, context):\n    return gradients\n"
CASE = """import torch
import leaklab
client = leaklab.Client(torch.nn.Linear(3, 2), rate=0.5)
inputs, targets = torch.zeros(1, 3), torch.tensor([0])
"""


@dataclass(frozen=True)
class Call:
    """What is called, and where.

    Attributes:
        words: of the command line after ``leaklab``.
        folder: in which it works.
        environment: all of it.
        umask: of what it makes.
        user: number of who calls; None for who runs this.
        closed: numbers of the standard files that are closed.
        output: where standard output goes in place of a file.
    """

    words: Sequence[str]
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    user: int | None = None
    closed: tuple[int, ...] = ()
    output: str = ""


@dataclass(frozen=True)
class Said:
    """How a call ended (negative: by which signal), and what it wrote."""

    status: int
    out: str
    err: str


def forked(call: Call) -> Said:
    """Make a call in a fork of this process."""
    if call.user is not None:
        load_everything()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            status = CHILD_FAILED
            try:
                status = _be(call, out.fileno(), err.fileno())
            except BaseException as error:  # noqa: BLE001 - a child that went on would be a second run of all cases
                with suppress(BaseException):
                    os.write(err.fileno(), f"{CHILD} {error!r}".encode())
            finally:
                os._exit(status)
        status = _wait(child)
        encoding = call.environment.get(ENCODING, "utf-8").partition(":")[0]
        said = Said(status, *(_read(one, encoding) for one in (out, err)))
        if status == CHILD_FAILED:
            raise RuntimeError(said.err)
        return said


def started(call: Call) -> Said:
    """Make a call in a Python that starts anew: what is read at its start counts, too."""
    command = [sys.executable, "-m", "leaklab.cli", *call.words]
    given = {**call.environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, cwd=call.folder, env=given, capture_output=True, check=False, umask=call.umask,
                          stdin=subprocess.DEVNULL, timeout=3 * LIMIT)  # fmt: skip
    return Said(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def _read(file: io.BufferedRandom, encoding: str) -> str:
    file.seek(0)
    return file.read().decode(encoding, "replace")


def _be(call: Call, out: int, err: int) -> int:
    """Become the command, in the child."""
    from leaklab import cli

    os.setsid()
    if call.user is not None:  # of root there is no such bound
        resource.setrlimit(resource.RLIMIT_NPROC, (MOST_PROCESSES, MOST_PROCESSES))
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    os.chdir(call.folder)
    os.umask(call.umask)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(call.output, os.O_WRONLY) if call.output else out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(call.environment)
    time.tzset()
    if call.user is not None:
        os.setgroups([])
        os.setgid(call.user)
        os.setuid(call.user)
    encoding, _, errors = call.environment.get(ENCODING, "utf-8").partition(":")
    # the consoles of the parent look at sys.stdout each time that they print
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    for number in call.closed:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    sys.argv = ["leaklab", *call.words]
    tempfile.tempdir = None
    try:
        return ended_as(cli.main)
    except BaseException as error:  # noqa: BLE001 - such as output that cannot be flushed
        with suppress(Exception):
            os.write(2, f"Traceback (most recent call last): at the end, {error!r}\n".encode())
        return 1


def _wait(child: int) -> int:
    limit, pause = time.monotonic() + LIMIT, 0.002
    while time.monotonic() < limit:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            with suppress(ProcessLookupError):  # what it started and did not wait for
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.05, 1.5 * pause)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise Wrong(f"it had not ended after {LIMIT:g} s")


@cache
def load_everything() -> None:
    """Load what commands load late: somebody else may have no right to read this Python's own folder."""
    for package in ("leaklab", "rich", "typer", "pydantic", "html", "json", "email", "http", "urllib", "logging",
                    "importlib", "multiprocessing", "concurrent", "asyncio", "xml", "encodings",
                    "collections"):  # fmt: skip
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                with suppress(Exception):
                    importlib.import_module(module.name)
    for name in sorted(sys.stdlib_module_names - NOISY):
        with suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # a collection in a fork would copy all that is shared


def make_project(folder: Path) -> Path:
    """Make a project with two items and files of all kinds, for all to read but what is closed."""
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "config", folder / "config")
    for path in (folder / "config/items").glob("*/*.yaml"):
        if path.name != "paper.yaml" and f"{path.parent.name}/{path.stem}" not in FEW:
            path.unlink()
    (folder / "workflow").mkdir()
    (folder / "workflow/Snakefile").write_text("")
    (folder / "folder").mkdir()
    (folder / "empty.py").write_text("")
    (folder / "binary.py").write_bytes(bytes(range(256)) * 16)
    (folder / "defense.py").write_text(DEFENSE)
    (folder / "case.py").write_text(CASE)
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "nowhere.py").symlink_to("gone.py")
    (folder / "card.json").write_text('{"card": 1}')
    for name in ("closed.py", "closed"):
        (folder / name).write_text("x") if "." in name else (folder / name).mkdir()
        (folder / name).chmod(0)
    return folder


@contextmanager
def as_before(folder: Path) -> Iterator[None]:
    """Say which file of a folder was changed or lost, and remove what is new."""
    before = state_of(folder)
    yield
    after = state_of(folder)
    for name in sorted(after.keys() - before.keys(), reverse=True):
        shutil.rmtree(name) if Path(name).is_dir() and not Path(name).is_symlink() else os.unlink(name)  # noqa: PTH108
    touched = [name for name, state in before.items() if after.get(name) != state]
    ensure(not touched, f"changed or gone: {touched[:3]!r}")


def judged(call: Call, said: Said) -> str:
    """Return what came of a call; a refusal is one line of ours, or the usage that the option's library prints."""
    both = said.out + said.err
    ensure(said.status >= 0, f"it was ended by signal {-said.status}")
    if "Traceback (most" in both or "Error in sys.excepthook" in both or "Exception ignored" in both:
        raise RuntimeError(f"{call.words!r:.300} in {dict(call.environment)!r:.600}: {both[-1800:]}")
    command = call.words[0] if call.words else ""
    ensure(said.status in STATUSES.get(command, (0, 1, 2)), f"status {said.status}: {both[-300:]}")
    if said.status == 0:
        return TAKEN
    lines = [line for line in said.err.split("\n") if line.startswith("leaklab: ")]
    if said.status == 1 and 2 not in call.closed and command not in ("try", "probe", "audit", "describe"):
        ensure(len(lines) == 1, f"{len(lines)} lines of refusal for {call.words!r:.200}: {both[-500:]}")
    if lines:
        ensure(len(lines[-1]) < LONGEST, f"{len(lines[-1])} characters: {lines[-1][:100]}")
        refused(lines[-1])
    return REFUSED
