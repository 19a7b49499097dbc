"""A process that has loaded the libraries, and forks each call and each step from itself.

A start costs a tenth of a second in place of four to eight, which is what makes hundreds of faults affordable. What is
forked is a process of its own, with the command's arguments, folder, environment and process group: it is killed, and
leaves its files, as any other.

PYTHONPATH=<workspace>/src:benchmarks python -m chaos.nursery FOLDER      until its standard input is closed
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.fork_server import ended_as

LIBRARIES = ("torch", "pandas", "pyarrow.parquet", "safetensors.torch", "scipy.optimize", "sklearn", "skimage.metrics",
             "matplotlib.pyplot", "matplotlib.backends.backend_pdf", "seaborn", "jinja2", "torchmetrics", "torchvision",
             "cma", "snakemake.cli", "leaklab.cli", "leaklab.planning.plan", "leaklab.steps.make_table",
             "leaklab.steps.make_figure", "leaklab.steps.run_attack", "leaklab.steps.score_attack",
             "leaklab.steps.train_federated", "leaklab.steps.capture_updates", "leaklab.steps.attack_text",
             "leaklab.steps.check_theory", "transformers.models.bert.modeling_bert",
             "rouge_score.rouge_scorer")  # fmt: skip
COMMANDS = {"snakemake": "snakemake.cli", "leaklab": "leaklab.cli"}
TICK = 0.02


class Nursery:
    """Forks what it is asked for, and says how it ended."""

    def __init__(self, folder: Path) -> None:
        """Listen in a folder, which also holds a file for each living step, and ``ended`` with a line for each."""
        self._living, self._ended = folder / "living", folder / "ended"
        self._living.mkdir()
        self._shim = folder / "python"
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(folder / "socket"))
        self._server.listen(64)
        self._of: dict[int, tuple[socket.socket, list[str], float]] = {}
        (folder / "ready").touch()

    def work(self) -> None:
        """Fork until standard input is closed; the process that was forked returns from here, too."""
        while True:
            connections = {connection: pid for pid, (connection, _, _) in self._of.items()}
            ready, _, _ = select.select([self._server, sys.stdin, *connections], [], [], TICK)
            self._reap()
            if sys.stdin in ready:
                return
            if self._server in ready and self._fork():
                return
            for connection in ready:
                if connections.get(connection) in self._of:  # its client was killed: so is a process of that name
                    os.kill(connections[connection], signal.SIGKILL)

    def _fork(self) -> bool:
        connection, _ = self._server.accept()
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile("r") as stream:
            request = json.loads(stream.readline())
        pid = os.fork()
        if not pid:
            self._server.close()
            connection.close()
            for other, _, _ in self._of.values():
                other.close()
            self._become(request, files)
            return True
        for file in files:
            os.close(file)
        self._of[pid] = connection, request["arguments"], time.monotonic()
        aside = self._living.parent / "next"
        aside.write_text(json.dumps(request["arguments"]), encoding="utf-8")
        aside.rename(self._living / str(pid))
        connection.sendall(f"{pid}\n".encode())
        return False

    def _reap(self) -> None:
        while self._of:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            connection, arguments, began = self._of.pop(pid)
            (self._living / str(pid)).unlink()
            line = {"pid": pid, "arguments": arguments, "status": os.waitstatus_to_exitcode(status),
                    "cpu": used.ru_utime + used.ru_stime, "seconds": time.monotonic() - began}  # fmt: skip
            with self._ended.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            with suppress(OSError):  # where nobody waits any more
                connection.sendall(f"{line['status']}\n".encode())
            connection.close()

    def _become(self, request: dict[str, Any], files: list[int]) -> None:
        os.setpgid(0, request["group"])
        # a shell starts what it leaves in the background with this signal ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["folder"])
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.executable = str(self._shim)  # the workflow puts its folder first on the path of its steps
        sys.argv = request["arguments"]


def main() -> None:
    """Load, fork; where it was forked, be what was asked for."""
    for library in LIBRARIES:
        __import__(library)
    gc.freeze()  # a collection in a forked process would copy all that is shared
    own = os.getpid()
    Nursery(Path(sys.argv[1])).work()
    if os.getpid() != own:
        os._exit(_status_of(*sys.argv))


def _status_of(name: str, *rest: str) -> int:
    def program() -> None:
        if name == "-m":
            sys.modules.pop(rest[0], None)
            sys.argv = list(rest)
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [f"{Path(sys.executable).parent}/{name}", *rest]
            sys.modules[COMMANDS[name]].main()

    return ended_as(program)


if __name__ == "__main__":
    main()
