"""A guest's code runs in a process of its own, with limits of time, memory and what it prints.

The parent gives a task and its arguments as JSON; the child answers in lines of JSON on a pipe of its own, so that what
the guest prints cannot be taken for an answer. Nothing of a guest is ever loaded by pickle. A child that does not end
is killed with all that it began, after it has told where it was; it ends with its parent, too.
"""

import ctypes
import faulthandler
import importlib
import json
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from leaklab.models.lanes.library import library
from leaklab.records.errors import UserError

SECONDS, BYTES = 25.0, 6 << 30
MOST_ANSWER, KEPT_PRINTS = 64 << 20, 20_000
TASKS = ("leaklab.guests.lint:linted", "leaklab.guests.description:described", "leaklab.guests.judge:judged",
         "leaklab.guests.contest:contested", "leaklab.guests.attempt:attempted")  # fmt: skip
"""What a child may be asked to do: module and function."""
WITH_ROWS = ("judged", "contested")
"""Those that tell parts of their answer before the rest."""
IN_CHILD = "LEAKLAB_IN_CHILD"
"""Set in the environment of children."""
END_WITH_PARENT = 1
"""Of the kernel's ``prctl``: PR_SET_PDEATHSIG."""
_MISS_SECONDS = 0.5
"""A child that is asked where it is has so long to answer."""


class CutOffError(UserError):
    """A child was ended before it had answered: its time was up, or nobody waits for it any more."""


@dataclass(frozen=True)
class Answer:
    """What a child said.

    Attributes:
        value: of its task.
        prints: the end of what the guest printed.
    """

    value: Any
    prints: str


@dataclass
class _Talk:
    """What has come from a child so far."""

    told: bytearray = field(default_factory=bytearray)
    prints: bytearray = field(default_factory=bytearray)
    where: bytearray = field(default_factory=bytearray)
    late: bool = False
    phase: str = "it was imported"
    value: dict[str, Any] | None = None
    on_row: Callable[[dict[str, Any]], None] = lambda row: None
    on_phase: Callable[[str], None] = lambda phase: None


def in_child(
    task: str,
    file: Path,
    arguments: Mapping[str, Any],
    *,
    seconds: float = SECONDS,
    memory: int = BYTES,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
    on_phase: Callable[[str], None] = lambda phase: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """Return what a task makes of a guest's file.

    Args:
        task: one of ``TASKS``.
        file: of the guest, for messages.
        arguments: of the task, as JSON.
        seconds: after which the child is killed.
        memory: bytes of address space that it may ask for beyond what the child begins with.
        on_row: called with each part of the answer that is ready before the rest.
        on_phase: called with what the child does now.
        stopped: asked twice a second whether the answer is still wanted; the child is ended where it is not.

    Raises:
        CutOffError: it had no answer by then, the line says where it was; or it was stopped.
        UserError: the guest cannot be judged; one line with file and, where there is one, line.
    """
    until, talk = time.monotonic() + seconds, _Talk(on_row=on_row, on_phase=on_phase)
    ends = {name: os.pipe() for name in ("told", "prints", "where")}
    child = _started(task, memory, {name: write for name, (_, write) in ends.items()})
    try:
        for _, write in ends.values():
            os.close(write)
        assert child.stdin
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps({"file": str(file), **arguments}).encode())
            child.stdin.close()
        _listen({name: read for name, (read, _) in ends.items()}, talk, child, until, stopped)
    finally:
        _kill(child)
        for read, _ in ends.values():
            os.close(read)
    if talk.value is None and stopped():
        raise CutOffError(f"{file}: it was stopped while {talk.phase}")
    if talk.value is None:
        raise (CutOffError if talk.late else UserError)(_why(file, talk, child.returncode, seconds))
    if "error" in talk.value:
        raise UserError(talk.value["error"])
    return Answer(talk.value["value"], talk.prints.decode(errors="replace"))


def _started(task: str, memory: int, writes: Mapping[str, int]) -> subprocess.Popen[bytes]:
    """Start a child that tells, prints and says where it is into these descriptors."""
    told, prints, where = writes["told"], writes["prints"], writes["where"]
    return subprocess.Popen(
        [sys.executable, "-m", "leaklab.guests.child", task, *map(str, (memory, told, where, os.getpid()))],
        stdin=subprocess.PIPE, stdout=prints, stderr=prints, start_new_session=True, pass_fds=[told, where],
        env={**os.environ, "OMP_NUM_THREADS": "1", IN_CHILD: "1"},
    )  # fmt: skip


def _listen(
    reads: Mapping[str, int], talk: _Talk, child: subprocess.Popen[bytes], until: float, stopped: Callable[[], bool]
) -> None:
    """Take all that the child says until it has answered, ended, run out of time or is no longer wanted."""
    with selectors.DefaultSelector() as selector:
        for name, descriptor in reads.items():
            selector.register(descriptor, selectors.EVENT_READ, name)
        asked = False
        while selector.get_map() and talk.value is None and not stopped():
            left = until - time.monotonic()
            if left <= 0:
                if asked:
                    return
                os.kill(child.pid, signal.SIGUSR1)  # it writes where it is
                asked, talk.late, until = True, True, time.monotonic() + _MISS_SECONDS
                continue
            for key, _ in selector.select(min(left, 0.5)):
                part = os.read(key.fd, 1 << 16)
                if not part:
                    selector.unregister(key.fd)
                    if key.data == "told":
                        return
                getattr(talk, key.data).extend(part)
            _sort(talk)


def _sort(talk: _Talk) -> None:
    del talk.prints[:-KEPT_PRINTS], talk.where[KEPT_PRINTS:]
    if len(talk.told) > MOST_ANSWER:
        talk.value = {"error": "the child process said more than any task says: report it"}
    while (end := talk.told.find(b"\n")) >= 0:
        said = json.loads(bytes(talk.told[:end]))
        del talk.told[: end + 1]
        if "phase" in said:
            talk.phase = said["phase"]
            talk.on_phase(talk.phase)
        elif "row" in said:
            talk.on_row(said["row"])
        else:
            talk.value = said


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a child and all that it began."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _why(file: Path, talk: _Talk, status: int, seconds: float) -> str:
    """Return the line for a child that gave no answer."""
    lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', talk.where.decode(errors="replace"))
    place = f"{file}, line {lines[0]}" if lines else str(file)
    if talk.late:
        return f"{place}: no answer after {seconds:.0f} s, while {talk.phase}: find what does not end there"
    if status < 0:
        return f"{place}: the process was ended by {signal.Signals(-status).name} while {talk.phase}: correct it"
    return f"{place}: it ended the process with status {status} while {talk.phase}: leave out os._exit and the like"


# In the child.


def main() -> None:
    """Do the task of the command line; the answer goes to the descriptor that is named there."""
    task, (memory, told, where, parent) = sys.argv[1], map(int, sys.argv[2:])
    _end_with(parent)
    faulthandler.register(signal.SIGUSR1, os.fdopen(where, "w"), all_threads=False)
    assert task in TASKS, task
    module, _, name = task.partition(":")
    arguments = json.loads(sys.stdin.read())
    function = getattr(importlib.import_module(module), name)
    library()  # a guest may open nothing, and its network's compiled steps are not to be looked for on its account
    with os.fdopen(told, "w") as out:
        _answer(function, arguments, memory, out)
        out.flush()
        os._exit(0)  # threads and exit handlers of a guest are not waited for


def _end_with(parent: int) -> None:
    """Have the system kill this process when its parent ends, however that ends; end at once where it has ended."""
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _answer(task: Callable[..., Any], arguments: dict[str, Any], memory: int, out: TextIO) -> None:
    def tell(said: dict[str, Any]) -> None:
        out.write(json.dumps(said) + "\n")
        out.flush()

    def phase(text: str) -> None:
        tell({"phase": text})

    if task.__name__ in WITH_ROWS:
        task = partial(task, row=lambda one: tell({"row": one}))
    file = Path(arguments.pop("file"))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    try:
        said: dict[str, Any] = {"value": task(file, phase=phase, **arguments)}
    except UserError as error:
        said = {"error": str(error)}
    except MemoryError:
        said = {"error": f"{file}: it asks for more than {memory >> 30} GiB of memory: let it work on less at once"}
    except Exception as error:  # noqa: BLE001  what is no fault of the guest's is not said to be one
        said = {"error": f"{file}: leaklab itself failed on it ({type(error).__name__}: {error!s:.200}): report it"}
    tell(said)


if __name__ == "__main__":
    main()
