"""A job without the start of its process: torch is imported once in a call, and each local job is a fork of that.

Its import takes two to three seconds of a processor, longer than most jobs of scale ``demo`` compute. The call starts
one server, which imports what steps import; a rule's command asks it for a fork that has the command's arguments,
environment, folder and files 0 to 2, waits for its end and ends alike. Without a server (a cluster, a call of few jobs,
another system than Linux, a server that was killed) the command becomes ``python -m`` itself, so that it is slower and
nothing else. The client runs without ``site`` and imports nothing but a few modules of the standard library.

A fork ends with the command that asked for it and with the server, however these end: nobody computes for nobody.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ADDRESS = "LEAKLAB_FORK_SERVER"
"""Where the call's server listens; ``off``: no call starts one."""
LEAST_JOBS = 8
"""Fewer are not worth a server, which imports what all steps want, more than any one of them does."""
FILES = (0, 1, 2)
WORD = 8
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GUEST_MARKS, GUEST_STEP = ("-guest-", "mine/.made/"), "leaklab.guests.step"
"""Words of a command whose step looks for guests first, and what it is started by."""
NO_FORK = 0
"""In place of a process's number: the client has another Python, and starts the step by itself."""
QUEUE = 1000
"""More clients than any call runs side by side may wait while the server imports."""
HELD: list[object] = []
"""Keeps the pipe to the server open until this process ends."""

# What the server imports before it forks: whoever asks earlier waits, which is sooner than importing the rest itself.
IMPORTED = (
    "torch", "pandas", "leaklab.steps.capture_updates", "leaklab.steps.run_attack", "leaklab.steps.score_attack",
    "leaklab.steps.train_federated", "leaklab.steps.check_theory", "leaklab.steps.make_table",
    "leaklab.steps.make_figure", "seaborn", "torchvision", "torchmetrics.functional.image",
)  # fmt: skip


def start(jobs: int) -> None:
    """Start the server of this call, if it has enough jobs for one; the call's end ends it."""
    if sys.platform != "linux" or jobs < LEAST_JOBS or os.environ.get(ADDRESS):
        return
    import subprocess
    import tempfile

    try:
        address = Path(tempfile.mkdtemp(prefix="leaklab-")) / "jobs"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:  # it listens before the server has started
            listener.bind(str(address))
            listener.listen(QUEUE)
            # by its file, so that no list of processes takes it for a job (`planning/call.py`)
            server = subprocess.Popen(
                [sys.executable, __file__, "--serve", str(address), str(listener.fileno())],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()], start_new_session=True,
            )  # fmt: skip
    except OSError:  # no room for temporary files, or a longer name of their folder than a socket may have
        return
    HELD.append(server)  # it ends when the pipe to it is closed, as late as with this process
    os.environ[ADDRESS] = str(address)


# The client: the command of a rule.


def ask(module: str, arguments: list[str]) -> int | None:
    """Run a module as a fork of the server; return how it ended as ``Popen.returncode`` does, None without a server."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.environ[ADDRESS])
        told = {"module": module, "arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        body = json.dumps({**told, "python": sys.executable}).encode("utf-8", "surrogateescape")
        socket.send_fds(connection, [len(body).to_bytes(WORD, "big")], FILES)
        connection.sendall(body)
        process = _number(connection)
    except (KeyError, OSError):
        return None
    if process in (None, NO_FORK):
        return None
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(process, number))
    code = _number(connection)
    if code is None:
        print("leaklab: the process that this job was a fork of has ended: run the same command again", file=sys.stderr)
        return 1
    return code


def _number(connection: socket.socket) -> int | None:
    read = b""
    while len(read) < WORD:
        more = connection.recv(WORD - len(read))
        if not more:
            return None
        read += more
    return int.from_bytes(read, "big", signed=True)


def _send(connection: socket.socket, number: int) -> None:
    from contextlib import suppress

    with suppress(OSError):  # where nobody waits any more
        connection.sendall(number.to_bytes(WORD, "big", signed=True))


def end_as(code: int) -> None:
    """End this process as another one ended: with its status, or by the signal that killed it."""
    if code < 0:
        if -code != signal.SIGKILL:  # which cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


# The server.


class Server:
    """Imports what steps import and forks one process for each client.

    Args:
        address: of the socket, in a folder that is its own and is removed at the end.
        listener: number of the file that listens there.
    """

    def __init__(self, address: Path, listener: int) -> None:
        import selectors

        self.address = address
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(fileno=listener)
        self.selector.register(sys.stdin, selectors.EVENT_READ, self._close)
        self.waiting: dict[int, socket.socket] = {}  # who waits for the end of which process

    def serve(self) -> None:
        """Import, fork for whoever asks until the call ends, then wait for the forks that are left."""
        import gc
        import importlib
        import selectors

        for name in IMPORTED:
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001  the job that needs it says what is wrong
                continue
            self._turn(0)
            if not self.address.exists():
                return
        gc.freeze()  # a collection in a fork would copy all that is shared
        self.selector.register(self.listener, selectors.EVENT_READ, self._fork)
        while self.address.exists() or self.waiting:
            self._turn(None)

    def _turn(self, seconds: float | None) -> None:
        for key, _ in self.selector.select(seconds):
            key.data(key.fileobj)

    def _close(self, _: object) -> None:
        from contextlib import suppress

        self.selector.unregister(sys.stdin)
        with suppress(KeyError):  # while it imports
            self.selector.unregister(self.listener)
        self.listener.close()
        self.address.unlink(missing_ok=True)
        self.address.parent.rmdir()

    def _fork(self, _: object) -> None:
        import selectors

        connection, _address = self.listener.accept()
        own = os.getpid()
        process = os.fork()
        if process == 0:
            self.selector.close()
            self.listener.close()
            for other in self.waiting.values():
                other.close()
            _be_the_job(connection, own)
        self.waiting[process] = connection
        self.selector.register(os.pidfd_open(process), selectors.EVENT_READ, lambda file: self._reap(file, process))

    def _reap(self, file: int, process: int) -> None:
        self.selector.unregister(file)
        os.close(file)
        connection = self.waiting.pop(process)
        _send(connection, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        connection.close()


def _be_the_job(connection: socket.socket, server: int) -> NoReturn:
    """Become the process that the client asked for."""
    code = 1
    try:
        _end_with(server)
        told = _request(connection)
        if told["python"] != sys.executable:  # of an environment of its own
            _send(connection, NO_FORK)
            os._exit(0)
        _watch(connection)
        Path("/proc/self/comm").write_text(told["module"].rpartition(".")[2], encoding="utf-8")  # for `top`
        _send(connection, os.getpid())
        code = _run(told["module"], told["arguments"])
    finally:
        os._exit(code)


def _end_with(server: int) -> None:
    import ctypes

    end_with_parent = 1
    ctypes.CDLL(None).prctl(end_with_parent, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _request(connection: socket.socket) -> dict[str, Any]:
    head, files, _, _ = socket.recv_fds(connection, WORD, len(FILES))
    length = int.from_bytes(head, "big")
    body = bytearray()
    while len(body) < length:
        more = connection.recv(length - len(body))
        if not more:
            os._exit(1)
        body += more
    told: dict[str, Any] = json.loads(body.decode("utf-8", "surrogateescape"))
    for own, given in zip(FILES, files, strict=True):
        os.dup2(given, own)
        os.close(given)
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["folder"])
    return told


def _watch(connection: socket.socket) -> None:
    """End this process as soon as nobody waits for it any more."""
    import threading

    def wait() -> None:
        connection.recv(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _run(module: str, arguments: list[str]) -> int:
    import runpy

    sys.modules.pop(module, None)
    sys.argv = [module, *arguments]
    return ended_as(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def ended_as(program: Callable[[], object]) -> int:
    """Run a program and return its status, as the interpreter would, which then takes down no object by itself."""
    import atexit
    import threading

    status = 0
    try:
        program()
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as the interpreter does with what nobody catches
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        sys.path[0] = str(Path.cwd())  # as of `python -m`; of a file it is the file's folder
        Server(Path(sys.argv[2]), int(sys.argv[3])).serve()
    else:
        has_guests = any(mark in word for word in sys.argv[2:] for mark in GUEST_MARKS)
        command = [*([GUEST_STEP] if has_guests else []), *sys.argv[1:]]
        ended = ask(command[0], command[1:])
        if ended is None:
            os.execv(sys.executable, [sys.executable, "-m", *command])
        end_as(ended)
