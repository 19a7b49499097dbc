"""Which sources are harmed, which mutants a seed draws from them, and which tests have to find each."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from mutants.edits import Edit, edits_of

TESTS, PACKAGE = Path("tests"), Path("src/leaklab")
NOT_OF_ROOMS = ("workflow", "docs", "benchmarks")
"""Folders of tests that start programs: what a room does is no matter of theirs."""
BLIND = "test_lazy_device.py"
"""Names every attack, runs it for minutes, and compares it with itself on another device."""


@dataclass(frozen=True)
class Room:
    """A part of the code that is harmed.

    Attributes:
        name: what it is called on the page.
        sources: pattern of its modules, below the package.
        tests: folder of its tests, below ``tests``.
        whole: whether all of that folder is run, after the files that name the module.
    """

    name: str
    sources: str
    tests: str
    whole: bool = True


ATTACKS = Room("attacks", "attacks/**/*.py", "attacks", whole=False)
DEFENSES = Room("defenses", "defenses/*.py", "defenses")
STATISTICS = Room("statistics", "metrics/statistics.py", "metrics", whole=False)
JUDGE = Room("judging", "report/judge/*.py", "report/judge")
TURNS = (DEFENSES, ATTACKS, STATISTICS, JUDGE, ATTACKS)
"""Whose mutant comes next, over and over; attacks, the largest room, twice."""


@dataclass(frozen=True)
class Mutant:
    """An edit of a module.

    Attributes:
        room: whose.
        path: the module, from the top of the checkout.
        edit: what is changed.
        before: the line as it is.
        after: the line as it becomes.
    """

    room: Room
    path: Path
    edit: Edit
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it however the lines above it move."""
        return self.path.as_posix(), self.edit.place, self.before, self.after

    def rank(self, seed: int) -> str:
        """Return its place among the mutants of its kind, by chance; an edit elsewhere in the code moves none."""
        return hashlib.sha256("\n".join((str(seed), *self.key)).encode()).hexdigest()


def drawn(folder: Path, seed: int, wanted: int) -> list[Mutant]:
    """Return so many mutants of the sources in a checkout: rooms in turn, and in each the kinds of edits in turn."""
    ways = {room: _of_room(folder, room, seed) for room in dict.fromkeys(TURNS)}
    every = (next(ways[room], None) for _ in range(wanted) for room in TURNS)
    real = (one for one in every if one and one.edit.changes((folder / one.path).read_text("utf-8")))
    return list(islice(real, wanted))


def _of_room(folder: Path, room: Room, seed: int) -> Iterator[Mutant]:
    kinds: dict[str, dict[tuple[str, ...], Mutant]] = {}
    for path in sorted((folder / PACKAGE).glob(room.sources)):
        source = path.read_text("utf-8")
        for edit in edits_of(source):
            mutant = Mutant(room, path.relative_to(folder), edit, *edit.difference(source))
            kinds.setdefault(edit.kind, {}).setdefault(mutant.key, mutant)
    queues = [sorted(found.values(), key=lambda one: one.rank(seed)) for _, found in sorted(kinds.items())]
    return (one for one in chain.from_iterable(zip_longest(*queues)) if one)


def finders_of(folder: Path, mutant: Mutant) -> list[Path]:
    """Return the files of tests that have to find a mutant, those that are nearest first.

    They are all that import its module, in the room's own folder also those that name it as a plug-in; then the rest of
    that folder (of ``adaptive`` for transforms). A module that none names is left to the tests of its importers.
    """
    own = folder / TESTS / mutant.room.tests
    naming = _naming(folder, mutant.path, own)
    whole = own if mutant.room.whole else own / "adaptive" if mutant.path.parent.name == "adaptive" else None
    found = [*naming, *(_files(whole) if whole else ())]
    if not found:
        dotted = _dotted(mutant.path)
        using = [path for path in sorted((folder / PACKAGE).glob(mutant.room.sources)) if _imports(path, dotted)]
        found = [test for path in using for test in _naming(folder, path.relative_to(folder), own)]

    def distance(path: Path) -> tuple[bool, bool, bool, Path]:
        return mutant.path.stem not in path.stem, path not in naming, own not in path.parents, path

    return [path.relative_to(folder) for path in sorted(set(found), key=distance)]


def _naming(folder: Path, module: Path, own: Path) -> list[Path]:
    plugin = re.compile(rf"""["']{re.escape(module.stem.replace("_", "-"))}["']""")
    named = _is_plugin(folder / module)
    return [
        path
        for path in _files(folder / TESTS)
        if path.relative_to(folder / TESTS).parts[0] not in NOT_OF_ROOMS
        and (_imports(path, _dotted(module)) or (named and own in path.parents and _has(path, plugin)))
    ]


def _is_plugin(module: Path) -> bool:
    return module.stem != "none" and _has(module, re.compile(r"^PLUGIN\b", re.MULTILINE))


def _dotted(module: Path) -> str:
    return ".".join(module.relative_to(PACKAGE.parent).with_suffix("").parts)


def _imports(path: Path, dotted: str) -> bool:
    parent, _, name = dotted.rpartition(".")
    return _has(path, re.compile(rf"\b{re.escape(dotted)}\b|from {re.escape(parent)} import .*\b{name}\b"))


def _files(folder: Path) -> Sequence[Path]:
    return sorted(path for path in folder.rglob("test_*.py") if path.name != BLIND)


def _has(path: Path, pattern: re.Pattern[str]) -> bool:
    return bool(pattern.search(path.read_text("utf-8")))
