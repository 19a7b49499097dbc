"""A process that has loaded the libraries, of which tests fork the commands that they start.

What is forked is a process of its own, with its arguments, folder, environment and files 0 to 2; it imports `leaklab`
itself, from the path that it is given, as a start would. Where there is no nursery the command starts as ever. That of
`benchmarks/chaos` is another one: it loads one workspace's code, too, and keeps a list of who lives, to kill them.

python -IS tests/nursery.py PROGRAM [ARGUMENT ...]      starts or forks one
"""

import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

ADDRESS = "LEAKLAB_TEST_NURSERY"
"""Not the fork server's own: what starts as a user's command does has a server of its own."""
BIN = Path(sys.executable).parent
PROGRAMS = {"snakemake": "snakemake.cli", "leaklab": "leaklab.cli"}
IMPORTED = (
    "torch", "snakemake.cli", "pandas", "pyarrow.parquet", "safetensors.torch", "scipy.optimize", "scipy.stats",
    "sklearn", "torchvision", "torchmetrics.functional.image", "skimage.metrics", "matplotlib.pyplot",
    "matplotlib.backends.backend_pdf", "seaborn", "jinja2", "pydantic", "typer.rich_utils",
)  # fmt: skip


def fork_server() -> ModuleType:
    """Load the fork server of the house under a name of its own, so that a fork imports `leaklab` afresh."""
    module = ModuleType("fork_server")
    SourceFileLoader(module.__name__, str(Path(__file__).parents[1] / "src/leaklab/fork_server.py")).exec_module(module)
    return module


def serve(address: Path, listener: int) -> None:
    """Fork for whoever asks until standard input is closed."""
    server = fork_server()
    server.IMPORTED = IMPORTED
    server._run = lambda name, arguments: server.ended_as(lambda: become(name, arguments))
    server.Server(address, listener).serve()


def become(name: str, arguments: list[str]) -> None:
    """Run what was asked for with the path that it would have, whatever the server's own is."""
    import runpy
    from importlib import import_module

    # what the server's own streams know of its files is not so of these
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if name in PROGRAMS:
        sys.path[:0] = [str(BIN), *given]
        sys.argv = [str(BIN / name), *arguments]
        import_module(PROGRAMS[name]).main()
    else:  # a step
        sys.path[:0] = [str(Path.cwd()), *given]
        sys.argv = [name, *arguments]
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def begin(address: Path) -> Any:
    """Start a nursery that listens at an address, and return it; it ends when the pipe to it is closed."""
    import socket
    import subprocess

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address))
        listener.listen(1000)
        return subprocess.Popen(
            [sys.executable, "-P", __file__, "--serve", str(address), str(listener.fileno())],
            stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True,
            env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip


def main() -> None:
    """Ask for a fork and end as it ends, or become the command."""
    name, *rest = sys.argv[1:]
    if name == "--serve":
        serve(Path(rest[0]), int(rest[1]))
        return
    server = fork_server()
    if ADDRESS in os.environ:
        os.environ[server.ADDRESS] = os.environ[ADDRESS]  # of the steps, too, if it starts any
        ended = server.ask(name, rest)
        if ended is not None:
            server.end_as(ended)
        del os.environ[server.ADDRESS]
    os.execv(BIN / name, [str(BIN / name), *rest])


if __name__ == "__main__":
    main()
