"""A committed copy of the working tree in which tests run Snakemake, with nothing from this checkout but its files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

# as in the workflow: two processes of one thread beat one process of two threads
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "tests",
    "GIT_AUTHOR_EMAIL": "tests@localhost",
    "GIT_COMMITTER_NAME": "tests",
    "GIT_COMMITTER_EMAIL": "tests@localhost",
}


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook, which would come before
def pytest_collection_modifyitems(items):
    """Share the tests out among the processes of `make test`.

    What rests on the demo goes to one process, so that the demo is made once, and what starts a Slurm or mounts a disk
    to one. Both begin first, as they take longest; the other processes take the tests of the code meanwhile.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        group = "demo" if "demo" in names else "machine" if item.get_closest_marker("machine") else None
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    order = {"demo": 0, "machine": 1}
    marks = {item: item.get_closest_marker("xdist_group") for item in items}
    items.sort(key=lambda item: order[marks[item].args[0]] if marks[item] else len(order))


@dataclass(frozen=True)
class Checkout:
    """A checkout with its own sources on the path and without a data mirror."""

    folder: Path

    def run(self, *command: str, timeout: float = 600, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the virtual environment (or git) in the checkout; stderr is joined to stdout."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment(more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of its commands."""
        own = {key: value for key, value in os.environ.items() if key not in ("LEAKLAB_MIRROR", "GIT_DIR")}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return {**own, **GIT_IDENTITY, "PATH": path, "PYTHONPATH": str(self.folder / "src"), **(more or {})}

    def must(self, *command: str, timeout: float = 600, **more: str) -> str:
        """Run a command that has to succeed and return what it printed."""
        done = self.run(*command, timeout=timeout, **more)
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        return done.stdout

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs in a file."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} does not contain {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def copy(self, folder: Path) -> "Checkout":
        """Return a second checkout with everything that was made in this one."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Checkout(folder)

    def clone(self, folder: Path) -> "Checkout":
        """Return a second checkout with what is committed in this one, and nothing that was made since."""
        self.must("git", "clone", "--quiet", ".", str(folder))
        return Checkout(folder)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """The files of this checkout that git knows or would take, committed afresh."""
    folder = tmp_path_factory.mktemp("fresh") / "leaklab"
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if source.exists() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    fresh = Checkout(folder)
    fresh.must("git", "init", "--quiet", "--initial-branch=main")
    fresh.must("git", "add", "--all")
    fresh.must("git", "commit", "--quiet", "--message", "everything")
    return fresh


@pytest.fixture(scope="session")
def demo(checkout):
    """The checkout after `snakemake demo`; tests that change anything take a copy."""
    checkout.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", "demo", timeout=900)
    return checkout
