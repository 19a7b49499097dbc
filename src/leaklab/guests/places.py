"""Where guests stand, so that items and ``leaklab try`` find them by name: nothing of them runs here.

A guest is a plug-in outside of the package. ``mine/`` in the working folder has the rooms of the package as folders,
``mine/defenses/shrinking.py`` for instance, so that a file moves between the two as it is; each folder that
``[tool.leaklab] plugins`` of the nearest ``pyproject.toml`` lists has the same; and an installed distribution names
single ones in entry points, ``leaklab.defenses`` for the room ``defenses``, ``leaklab.attacks.adaptive`` for
``attacks/adaptive``.
"""

import importlib.util
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from leaklab.guests import files
from leaklab.guests.rooms import MINE, ROOMS
from leaklab.records import plugins
from leaklab.records.errors import UserError

JUDGED = ("defenses", "attacks")
"""Rooms whose guests need no ``PLUGIN``: what a file offers there is found as ``leaklab try`` finds it."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
GROUP = "leaklab."
DIGITS = 12
MARK = re.compile(rf"-guest-[0-9a-f]{{{DIGITS}}}(?![0-9a-z])")
"""What the name of a guest ends with where it says which code it is."""


@dataclass(frozen=True)
class Lodger:
    """A guest's plug-in.

    Attributes:
        room: of the package in which it takes part.
        name: by which it is asked for.
        file: absolute, that defines it.
        offered: its class or function there.
        place: where it was found, for people.
        sha256: of the file and of what it imports from beside it; of an installed package, of all of that.
        entry: ``module:name`` of an entry point; empty for a file of a folder.
        alone: the file says no ``PLUGIN``, and is read as ``leaklab try`` reads it.
    """

    room: str
    name: str
    file: Path
    offered: str
    place: str
    sha256: str
    entry: str = ""
    alone: bool = False

    @property
    def key(self) -> str:
        """Its name with its digest: what specs say, so that a run of other code is another run."""
        return f"{self.name}-guest-{self.sha256[:DIGITS]}"

    def digest_now(self) -> str:
        """Return its digest as it is now."""
        return _packaged_digest(self.file, self.entry) if self.entry else files.digest(self.file)


def lodgers() -> dict[str, dict[str, Lodger]]:
    """Return all guests of the working folder and the environment: room -> name -> guest.

    Raises:
        UserError: two of one name in a room, also of the package; a file that is not Python, a name that no run can
            have, or a wrong ``[tool.leaklab]``.
    """
    found: dict[str, dict[str, Lodger]] = {room: {} for room in ROOMS}
    for one in (*_of_folders(), *_of_distributions()):
        other = found[one.room].get(one.name)
        house = plugins.offers(one.room).get(one.name)
        if other or house:
            where = other.place if other else f"leaklab itself ({_shown(house.file)})" if house else ""
            raise UserError(f"{where} and {one.place} both offer the {one.room} plug-in '{one.name}': rename one")
        found[one.room][one.name] = one
    return found


def file_of(path: Path) -> Path | None:
    """Return the file of the guest that a user calls by its name; None where he says a path.

    Raises:
        UserError: it is the name of nobody.
    """
    if path.exists() or path.suffix or len(path.parts) != 1:
        return None
    known = lodgers()
    named = [known[room][path.name] for room in JUDGED if path.name in known[room]]
    if not named:
        names = sorted({name for room in JUDGED for name in known[room]})
        choice = f"choose from {', '.join(names)}" if names else f"{MINE} and the other places of guests are empty"
        raise UserError(f"{path} is neither a file nor the name of a guest: name a Python file, or {choice}")
    if len(named) > 1:
        raise UserError(f"{' and '.join(one.place for one in named)} are both called {path}: name the file")
    return named[0].file


def _of_folders() -> Iterator[Lodger]:
    seen: set[Path] = set()
    for folder in (Path.cwd() / MINE, *_listed(Path.cwd())):
        if folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        for room in ROOMS:
            for file in sorted((folder / room).glob("*.py")):
                yield from _of_file(room, file)


def _of_file(room: str, file: Path) -> Iterator[Lodger]:
    place = _shown(file)
    offers = plugins.offered_in(file)
    for name, offer in offers.items():
        _check_name(name, place)
        yield Lodger(room, name, file, offer.offered, place, files.digest(file))
    alone = files.found_in(file) if room in JUDGED and not offers else None
    if alone is not None:
        name = file.stem.replace("_", "-")
        _check_name(name, place)
        if alone.kind != room[:-1]:
            raise UserError(f"{place}, line {alone.line}: {alone.offered} is no {room[:-1]}: move it to {alone.kind}s")
        # the settings of a class are its fields; a function, or an object, has none
        offered = alone.offered if alone.form == "class" else ""
        yield Lodger(room, name, file, offered, place, alone.sha256, alone=True)


def _listed(start: Path) -> list[Path]:
    """Return the folders that the nearest ``pyproject.toml`` lists."""
    file = next((one / "pyproject.toml" for one in (start, *start.parents) if (one / "pyproject.toml").is_file()), None)
    if file is None:
        return []
    try:
        tool = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, ValueError) as error:
        raise UserError(f"{_shown(file)} cannot be read as TOML ({error}): correct it") from None
    own = tool.get("leaklab", {}) if isinstance(tool, dict) else {}
    listed = own.get("plugins", []) if isinstance(own, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise UserError(f'{_shown(file)}: [tool.leaklab] plugins: write a list of folders, such as ["plugins"]')
    folders = [file.parent / one for one in listed]
    for one in folders:
        if not one.is_dir():
            raise UserError(f"{_shown(file)}: [tool.leaklab] plugins: there is no folder {_shown(one)}")
    return folders


def _of_distributions() -> Iterator[Lodger]:
    every = entry_points()
    for group in sorted(one for one in every.groups if one.startswith(GROUP)):
        yield from map(_of_entry, sorted(every.select(group=group), key=lambda one: (one.name, one.value)))


def _of_entry(entry: EntryPoint) -> Lodger:
    owner = entry.dist.name if entry.dist else "a distribution"
    place = f"{owner} (entry point {entry.group}: {entry.name} = {entry.value})"
    room, name = entry.group.removeprefix(GROUP).replace(".", "/"), entry.name.replace("_", "-")
    if room not in ROOMS:
        groups = ", ".join(GROUP + one.replace("/", ".") for one in ROOMS)
        raise UserError(f"{place}: there is no such group: choose from {groups}")
    _check_name(name, place)
    spec = _spec_of(entry.module)
    file = Path(spec.origin) if spec and spec.origin else None
    if file is None or not file.is_file():
        raise UserError(f"{place}: there is no module {entry.module}: install {owner} again")
    if not entry.attr or not _defines(file, entry.attr):
        raise UserError(f"{place}: name the module that defines it, and its class or function there")
    return Lodger(room, name, file, entry.attr, place, _packaged_digest(file, entry.value), entry.value)


def _spec_of(module: str) -> ModuleSpec | None:
    """Return where a module stands; no package on the way to it is imported."""
    top, *rest = module.split(".")
    spec, name = importlib.util.find_spec(top), top
    for part in rest:
        name = f"{name}.{part}"
        inside = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(name, list(inside)) if inside is not None else None
    return spec


def _packaged_digest(file: Path, entry: str) -> str:
    """Return the digest of a module of an installed package, and of all of that package."""
    depth = entry.partition(":")[0].count(".") + (file.name == "__init__.py")
    root = file.parents[depth]
    return files.digest(file, root, sorted((file.parents[depth - 1]).rglob("*.py")) if depth else ())


def _defines(file: Path, name: str) -> bool:
    return bool(re.search(rf"^(class|def)\s+{re.escape(name)}\b", file.read_text(encoding="utf-8"), re.MULTILINE))


def _check_name(name: str, place: str) -> None:
    if not NAME.fullmatch(name) or MARK.search(name):
        raise UserError(f"{place}: a plug-in cannot be called '{name}': use small letters, digits and single dashes")


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def plain(text: str) -> str:
    """Return a text in which guests are called as users call them."""
    return MARK.sub("", text)


def names_of(known: Mapping[str, Mapping[str, Lodger]]) -> dict[tuple[str, str], str]:
    """Return (room, name) -> the name with the digest."""
    return {(room, name): one.key for room, own in known.items() for name, one in own.items()}
