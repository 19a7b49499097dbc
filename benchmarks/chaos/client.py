"""Ask the nursery for a process, and stand for it: `python -m leaklab.steps.X` of a workspace is this program.

It needs nothing but the standard library, so that it starts at once.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

OWN_GROUP = 0


def ask(
    address: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    group: int,
    files: Sequence[int],
) -> tuple[socket.socket, int]:
    """Return the connection that reports how a process ends, and its number.

    Args:
        address: of the nursery.
        arguments: ``snakemake ...``, ``leaklab ...`` or ``-m module ...``.
        environment: of the process.
        folder: in which it works.
        group: process group that it joins, or ``OWN_GROUP``.
        files: numbers of its standard input, output and error.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    socket.send_fds(connection, [b"."], list(files))
    request = {"arguments": list(arguments), "environment": dict(environment), "folder": folder, "group": group}
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection, int(line_of(connection))


def line_of(connection: socket.socket) -> str:
    """Return the next line that the nursery sends; empty if it has gone."""
    found = b""
    while not found.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            break
        found += part
    return found.decode().strip()


def main() -> None:
    """Run a step, and end as it ended: with its status, or by the signal that ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the step answers it, and this program ends as the step does
    address, arguments = sys.argv[1], sys.argv[2:]
    connection, _ = ask(address, arguments, os.environ, os.getcwd(), os.getpgrp(), (0, 1, 2))  # noqa: PTH109
    status = int(line_of(connection) or 1)
    if status < 0:
        if -status != signal.SIGKILL:  # which cannot be set
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
