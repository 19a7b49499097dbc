"""A fork of the call's server is the process that ``python -m`` would have started, and none lives for nobody."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from leaklab import fork_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems start each job's process")

PROGRAMS = {
    "tells": """
        import json, os, sys
        print(json.dumps({"argv": sys.argv[1:], "folder": os.getcwd(), "word": os.getenv("WORD"), "main": __name__}))
        print(sys.stdin.read(), file=sys.stderr)
        """,
    "ends": """
        import sys
        given = sys.argv[1]
        sys.exit(int(given) if given.isdigit() else given)
        """,
    "raises": "raise RuntimeError('what nobody catches')",
    "cleans": """
        import atexit
        atexit.register(print, "cleaned")
        """,
    "waits": """
        import os, pathlib, time
        pathlib.Path("pid").write_text(str(os.getpid()))
        time.sleep(60)
        """,
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "parent": "import os; print(os.getppid())",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def interrupts_are_heard():
    """A shell has its background jobs ignore them, and so all that these start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path):
    for name, text in PROGRAMS.items():
        lines = text.strip("\n").splitlines()
        indent = len(lines[0]) - len(lines[0].lstrip())
        (tmp_path / f"{name}.py").write_text("\n".join(line[indent:] for line in lines) + "\n")
    for name in (
        "torch",
        "pandas",
        "seaborn",
        "torchvision",
        "leaklab",
    ):  # empty ones, so that the server is there at once
        (tmp_path / f"{name}.py").touch()
    return tmp_path


@pytest.fixture
def server(folder, monkeypatch):
    with started(folder, monkeypatch) as process:
        yield process


@contextmanager
def started(folder, monkeypatch):
    monkeypatch.delenv(fork_server.ADDRESS, raising=False)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{Path(fork_server.__file__).parents[1]}")
    monkeypatch.setattr(fork_server, "HELD", [])
    fork_server.start(fork_server.LEAST_JOBS)
    (process,) = fork_server.HELD
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        assert not Path(os.environ[fork_server.ADDRESS]).parent.exists()


def command(*words):
    return [sys.executable, "-IS", fork_server.__file__, *words]


def run(folder, *words, **more):
    settings = {"input": "", "capture_output": True, "text": True, "check": False, "timeout": 60, **more}
    return subprocess.run(command(*words), cwd=folder, **settings)  # noqa: PLW1510


def waiting(folder):
    """Return a client whose fork waits, and the fork's number."""
    client = subprocess.Popen(command("waits"), cwd=folder, stderr=subprocess.PIPE, text=True)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text())
    return client, int((folder / "pid").read_text())


def until(true, seconds=120):
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def without_server(folder, *words, **more):
    return run(folder, *words, env={**os.environ, fork_server.ADDRESS: "off"}, **more)


class TestAForkIsTheProcess:
    def test_it_is_a_child_of_the_server(self, folder, server):
        assert int(run(folder, "parent").stdout) == server.pid
        assert int(without_server(folder, "parent").stdout) != server.pid

    @pytest.mark.parametrize(
        "words",
        [
            ("tells", "--spec", '{"a b": "ü"}'),
            ("ends", "0"),
            ("ends", "3"),
            ("ends", "leaklab: what to do"),
            ("cleans",),
        ],
    )
    def test_it_says_and_ends_as_one_that_was_started(self, folder, server, words, monkeypatch):
        monkeypatch.setenv("WORD", "of the client")
        fork, one = (each(folder, *words, input="read\n") for each in (run, without_server))
        assert (fork.stdout, fork.stderr, fork.returncode) == (one.stdout, one.stderr, one.returncode)
        if words[0] == "tells":
            assert json.loads(fork.stdout) == {
                "argv": list(words[1:]), "folder": str(folder), "word": "of the client", "main": "__main__",
            }  # fmt: skip

    def test_what_nobody_catches_is_shown(self, folder, server):
        fork = run(folder, "raises")
        assert fork.returncode == 1
        assert "RuntimeError: what nobody catches" in fork.stderr

    def test_one_that_is_killed_takes_its_client_along(self, folder, server):
        assert run(folder, "dies").returncode == without_server(folder, "dies").returncode == -signal.SIGKILL

    def test_forks_do_not_change_each_other(self, folder, server, monkeypatch):
        monkeypatch.setenv("WORD", "first")
        run(folder, "tells")
        monkeypatch.delenv("WORD")
        assert json.loads(run(folder, "tells").stdout)["word"] is None


class TestNobodyComputesForNobody:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
    def test_a_fork_ends_with_its_client(self, folder, server, number):
        client, fork = waiting(folder)
        client.send_signal(number)
        client.wait(timeout=30)
        assert client.returncode != 0
        until(lambda: not lives(fork))

    def test_a_fork_ends_with_the_server_and_its_client_says_so(self, folder, server):
        client, fork = waiting(folder)
        server.kill()
        assert "run the same command again" in client.communicate(timeout=30)[1]
        assert client.returncode == 1
        until(lambda: not lives(fork))
        Path(os.environ[fork_server.ADDRESS]).unlink()
        Path(os.environ[fork_server.ADDRESS]).parent.rmdir()

    def test_the_end_of_the_call_lets_a_fork_finish(self, folder, server):
        client, fork = waiting(folder)
        server.stdin.close()
        until(lambda: not Path(os.environ[fork_server.ADDRESS]).exists())
        assert lives(fork)
        assert server.poll() is None
        client.kill()
        server.wait(timeout=30)


class TestWithoutAServer:
    def test_a_step_starts_by_itself(self, folder, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.delenv(fork_server.ADDRESS, raising=False)
        assert run(folder, "ends", "3").returncode == 3
        monkeypatch.setenv(fork_server.ADDRESS, str(folder / "nobody-listens"))
        assert run(folder, "ends", "4").returncode == 4

    def test_another_environments_python_starts_by_itself(self, folder, server):
        other = folder / "python"
        other.symlink_to(sys.executable)
        words = [str(other), "-IS", fork_server.__file__, "parent"]
        told = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
        assert int(told.stdout) != server.pid

    def test_few_jobs_have_none(self, monkeypatch):
        monkeypatch.delenv(fork_server.ADDRESS, raising=False)
        monkeypatch.setattr(fork_server, "HELD", [])
        fork_server.start(fork_server.LEAST_JOBS - 1)
        assert not fork_server.HELD
        monkeypatch.setenv(fork_server.ADDRESS, "off")
        fork_server.start(1000)
        assert not fork_server.HELD

    @pytest.mark.parametrize("name", ["missing", "long" * 40])
    def test_where_no_socket_can_be_jobs_start_by_themselves(self, tmp_path, monkeypatch, name):
        if name != "missing":
            (tmp_path / name).mkdir()
        monkeypatch.delenv(fork_server.ADDRESS, raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
        monkeypatch.setattr(fork_server, "HELD", [])
        fork_server.start(fork_server.LEAST_JOBS)
        assert not fork_server.HELD
        assert fork_server.ADDRESS not in os.environ


def test_all_that_it_imports_is_there():
    """A module that was renamed would only make jobs slower, and nobody would notice."""
    for name in fork_server.IMPORTED:
        __import__(name)


@pytest.mark.workflow
def test_a_first_call_plans_while_libraries_are_imported(checkout, tmp_path):
    first = checkout.clone(tmp_path / "first").only("lrp/table4")
    running = subprocess.Popen(
        ["snakemake", "--cores", "1", "--", "demo"], cwd=first.folder,
        env=first.environment({fork_server.ADDRESS: ""}),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    server = first.process("fork_server.py", "--serve")
    assert not any((first.folder / ".snakemake/locks").glob("*"))  # which it takes when all is planned
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(timeout=60)
    limit = time.monotonic() + 60
    while Path(f"/proc/{server}").exists():
        assert time.monotonic() < limit, "it imports for nobody"
        time.sleep(0.1)
