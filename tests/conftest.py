"""A committed copy of the working tree in which tests run Snakemake, with nothing from this checkout but its files."""

import gc
import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

# as in the workflow: two processes of one thread beat one process of two threads
os.environ.setdefault("OMP_NUM_THREADS", "1")
# plans and syntax trees of thousands of tests stay in memory, and each collection walks through all of them
gc.set_threshold(50_000, 20, 20)
# what a script starts in the background ignores Ctrl-C, and so would all that tests start and press it for
signal.signal(signal.SIGINT, signal.default_int_handler)
ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
FORKED = (sys.executable, "-IS", str(Path(__file__).with_name("nursery.py")))
"""Before a program: forked of the process that has loaded the libraries (``nursery.py``)."""
GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "tests",
    "GIT_AUTHOR_EMAIL": "tests@localhost",
    "GIT_COMMITTER_NAME": "tests",
    "GIT_COMMITTER_EMAIL": "tests@localhost",
}


TOGETHER = {
    "demo": ("demo", "dvc", "sharing"),
    "few": ("few_items", "kills", "literal", "pieces"),
}
"""Fixture -> files of ``workflow`` whose tests begin with what it made, which is made once."""
PUBLISHED = ("coverage", "numbers", "sentences")
"""Files of ``docs`` whose tests rest on all that the published results say, which is gathered once."""
FEW = ("lrp/table1", "lrp/table4", "lrp/table5", "lrp/figure2", "lrp/figure4", "lrp/figure5", "outpost/table2")
"""Items of ``few``: trainings, attacks, one without a run, and two that the demo leaves out."""


def loaded(name):
    """Return a module that lies beside this one."""
    place = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


NURSERY = loaded("nursery")


def group_of(test):
    """Return what runs in one process, in order: all that rests on one fixture, what starts a Slurm, else a file.

    xdist's own groups (``--dist loadgroup``) are lost with this pytest.
    """
    file = test.split("::")[0]
    if file.endswith("workflow/test_slurm.py"):
        return "slurm"
    if file.endswith(tuple(f"docs/test_{one}.py" for one in PUBLISHED)):
        return "docs"
    found = [
        name for name, files in TOGETHER.items() if file.endswith(tuple(f"workflow/test_{one}.py" for one in files))
    ]
    return found[0] if found else file


def pytest_configure(config):
    """Let one process load the libraries for what the tests of `make test` start."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput") and sys.platform == "linux":
        os.environ[NURSERY.ADDRESS] = str(Path(tempfile.mkdtemp(prefix="leaklab-tests-")) / "forks")
        config.nursery = NURSERY.begin(Path(os.environ[NURSERY.ADDRESS]))  # it ends with this process


def pytest_collection_modifyitems(items):
    """Begin with what takes longest; the other processes take the tests of the code meanwhile."""

    def place(item):
        group = group_of(item.nodeid)
        # `few` takes over what the demo made, so it comes late among what runs Snakemake
        return group != "demo", group != "slurm", "workflow/" not in group and group != "few", group == "few"

    items.sort(key=place)
    # an address is another one in each process, and then none of them runs anything
    if named := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"{named[0]}: give this parameter an id of its own")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests of `make test` out among its processes by ``group_of``, in the order given above."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log)


DIGESTS = Path(".snakemake/code-digests.json")
"""Where a checkout keeps the digests of its code."""


@dataclass(frozen=True)
class Checkout:
    """A checkout with its own sources on the path and without a data mirror."""

    folder: Path

    def run(
        self, *command: str, timeout: float = 600, forked: bool = True, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the virtual environment (or git) in the checkout; stderr is joined to stdout.

        What loads libraries is forked of who has loaded them; not ``forked``, it starts as it does for a user.
        """
        return subprocess.run(
            [*(FORKED if forked and command[0] in NURSERY.PROGRAMS else ()), *command],
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
        """Return the environment of its commands, with ``more``: `make test` has no other path to the programs.

        A ``PATH`` of ``more`` stands before the virtual environment, which stands before the users' own.
        """
        own = {key: value for key, value in os.environ.items() if key not in ("LEAKLAB_MIRROR", "GIT_DIR")}
        given = {**own, **GIT_IDENTITY, "PYTHONPATH": str(self.folder / "src"), **(more or {})}
        before = [more["PATH"]] if more and "PATH" in more else []
        return {**given, "PATH": os.pathsep.join([*before, str(BIN), os.environ["PATH"]])}

    def must(self, *command: str, timeout: float = 600, forked: bool = True, **more: str) -> str:
        """Run a command that has to succeed and return what it printed."""
        done = self.run(*command, timeout=timeout, forked=forked, **more)
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        return done.stdout

    def talk(self, said: str) -> str:
        """Return all that Snakemake said in a call, of whose console ``said`` is."""
        (log,) = (line.rpartition(": ")[2] for line in said.splitlines() if "all that Snakemake said" in line)
        return (self.folder / log).read_text(encoding="utf-8")

    def process(self, *words: str, seconds: float = 60) -> int:
        """Return the id of the Python process in the checkout whose command line has all words, once it is there."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    parts = entry.read_bytes().decode(errors="replace").split("\0")
                    here = (entry.parent / "cwd").resolve() == self.folder.resolve()
                except OSError:
                    continue
                found = all(any(word in part for part in parts) for word in words)
                if here and found and parts[0].endswith(("python", "python3")):
                    return int(entry.parent.name)
            time.sleep(0.1)
        raise AssertionError(f"no process {words} within {seconds} s")

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
        take_digests(self.folder, folder)
        return Checkout(folder)

    def only(self, *items: str) -> "Checkout":
        """Commit that no other items, and no results, are there: each call of Snakemake plans all that are."""
        others = [
            path
            for path in self.folder.glob("config/items/*/*.yaml")
            if path.stem != "paper" and f"{path.parent.name}/{path.stem}" not in items
        ]
        self.must("git", "rm", "-r", "--quiet", "results", "figures", *map(str, others))
        self.must("git", "commit", "--quiet", "--message", f"without results, and with no items but {items}")
        return self


def take_digests(source: Path, target: Path) -> None:
    """Take over the digests of code that were found in a checkout: those of other sources count for nothing."""
    if (source / DIGESTS).is_file():
        (target / DIGESTS).parent.mkdir(exist_ok=True)
        shutil.copy2(source / DIGESTS, target / DIGESTS)


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
    take_digests(ROOT, folder)
    fresh = Checkout(folder)
    fresh.must("git", "init", "--quiet", "--initial-branch=main")
    fresh.must("git", "add", "--all")
    fresh.must("git", "commit", "--quiet", "--message", "everything")
    return fresh


@pytest.fixture(scope="session")
def demo(checkout, made):
    """The checkout after `snakemake demo`, which said what lies beside it; tests that change anything take a copy."""
    with FileLock(f"{made}.lock"):
        said = checkout.must("snakemake", "--cores", "2", "--", "demo", timeout=2400, forked=False)
        made.symlink_to(checkout.folder)
    checkout.folder.with_name("said.txt").write_text(said, encoding="utf-8")
    return checkout


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The link to the checkout of ``demo``, for all processes of this call of pytest; there once the demo is made."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "demo"


@pytest.fixture(scope="session")
def few(checkout, made, tmp_path_factory):
    """A checkout with few items after `snakemake demo`: calls of all items take thrice as long; tests take a copy.

    Runs that another process made for ``demo`` are taken over: they are those that would be made here.
    """
    clone = checkout.clone(tmp_path_factory.mktemp("few") / "leaklab").only(*FEW)
    with FileLock(f"{made}.lock"):
        take_runs(made, clone.folder)
    clone.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", "demo", timeout=1200)
    return clone


def take_runs(source: Path, target: Path) -> None:
    """Take over the runs of a checkout that items of another one ask for, if they are there."""
    from leaklab.items.items import load_items
    from leaklab.planning.plan import build_plan

    plan = build_plan(load_items(target / "config/items"), ["demo"])
    for job in (job for jobs in plan.jobs.values() for job in jobs.values()):
        folder = Path(job.folder)
        if (source / folder / "run.json").is_file():
            shutil.copytree(source / folder, target / folder)


@pytest.fixture(scope="session")
def lazy_device():
    """The module ``lazy_device.py`` with torch's lazy device begun, which a process can do once only."""
    try:
        module = loaded("lazy_device")
        module.begin()
    except (ImportError, AttributeError, RuntimeError) as error:
        pytest.skip(f"this torch has no lazy device: {error}")
    return module


@pytest.fixture
def lazy(lazy_device):
    """The name of a device on which tensors of other devices are refused; see ``lazy_device.py``."""
    with lazy_device.strict() as name:
        yield name


@pytest.fixture(scope="session")
def whole_plan():
    """The plan of all items at all scales, which takes seconds to make: tests read it and add nothing."""
    from leaklab.items.items import load_items
    from leaklab.planning.plan import build_plan

    return build_plan(load_items(ROOT / "config/items"))


@pytest.fixture(scope="session")
def rule_texts():
    """The sections of every rule with a command, as text: rule -> section -> lines."""
    found = {}
    for file in sorted((Path(__file__).parents[1] / "workflow/rules").glob("*.smk")):
        for part in re.split(r"^rule ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, _, block = part.partition(":\n")
            block = re.split(r"\n(?=\S)", block)[0]
            sections = dict(re.findall(r"^    (\w+):\n((?:        .*\n?|\n)+)", f"{block}\n", re.MULTILINE))
            if "shell" in sections:
                found[name] = sections
    return found


@pytest.fixture(scope="session")
def dataset():
    """Handwritten digits as a data set, private images for captures."""
    import torch
    from sklearn.datasets import load_digits

    from leaklab.data.dataset import Dataset

    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.tensor(loaded.target)
    moments = torch.tensor([0.3]), torch.tensor([0.4])
    return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], *moments)


KEPT_BY_PLACE = (
    "leaklab.items.items.load_items", "leaklab.items.items.load_papers", "leaklab.planning.estimate._catalog",
    "leaklab.report.site.glossary._abbreviations", "leaklab.report.site.recipes._listed",
)  # fmt: skip
"""What reads files by a path from where one is, and keeps what it read."""


@pytest.fixture(autouse=True)
def _nothing_of_other_folders(monkeypatch):
    """Forget what a test read in a folder that it went to.

    It asks for ``monkeypatch``, so as to end while the test is still there.
    """
    yield
    if not ROOT.samefile("."):
        for place, _, name in (one.rpartition(".") for one in KEPT_BY_PLACE):
            function = getattr(sys.modules.get(place), name, None)
            if hasattr(function, "cache_clear"):  # a test may have put another one there
                function.cache_clear()


@pytest.fixture
def package_at(monkeypatch):
    """Return a function that says where plug-ins are sought, and forgets what was known of those sought before.

    Called again after an edit below that folder, it forgets what was known before the edit.
    """
    from leaklab.observations import declared
    from leaklab.records import plugins, traits

    def forget():
        for one in (*vars(plugins).values(), *vars(traits).values(), *vars(declared).values()):
            if hasattr(one, "cache_clear"):
                one.cache_clear()

    def seek(folder):
        monkeypatch.setattr(plugins, "PACKAGE_FOLDER", folder)
        forget()

    yield seek
    forget()


@pytest.fixture
def plant(tmp_path, monkeypatch, package_at):
    """Return a function that adds a plug-in to the house for one test: ``plant("mine", source, "attacks")``."""
    from leaklab.records import plugins

    house, package = plugins.PACKAGE_FOLDER, tmp_path / "planted/leaklab"
    package.mkdir(parents=True)

    def open_up(folder):
        """Make a folder of links to what the house has there, in which there is room for more."""
        place = package / folder
        if place.is_symlink():
            place.unlink()
            place.mkdir()
        for path in (house / folder).iterdir():
            if path.name != "__pycache__" and not (place / path.name).exists():
                (place / path.name).symlink_to(path)

    def add(name, source, room="defenses"):
        folders = room.split("/")
        for depth in range(1, len(folders) + 1):
            open_up("/".join(folders[:depth]))
        file = package / room / f"{name.replace('-', '_')}.py"
        file.write_text(source, encoding="utf-8")
        package_at(package)
        parent = importlib.import_module(".".join(["leaklab", *folders]))
        if str(file.parent) not in parent.__path__:
            monkeypatch.setattr(parent, "__path__", [*parent.__path__, str(file.parent)])
        monkeypatch.delitem(sys.modules, f"{parent.__name__}.{file.stem}", raising=False)

    open_up("")
    package_at(package)
    return add
