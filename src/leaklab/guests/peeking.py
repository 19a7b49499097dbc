"""What a guest's attack may not name: whatever could lead it to the private images, refused before it runs.

Its process has none of them, and opens no files while it reads updates; this is the fence before that one. A file says
what it uses in its text: imports from a list, and no names by which other modules, files or frames are reached.
"""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leaklab.guests.files import beside
from leaklab.records.errors import UserError

MODULES = (
    "__future__", "abc", "cmath", "collections", "copy", "dataclasses", "enum", "fractions", "functools", "itertools",
    "leaklab.attacks", "leaklab.metrics", "leaklab.models", "leaklab.observations",
    "leaklab.records.bounds", "leaklab.records.errors", "leaklab.records.streams", "math", "numpy", "operator",
    "scipy", "statistics", "string", "time", "torch", "typing", "typing_extensions", "warnings",
)  # fmt: skip
"""What an attack may import, and all below it."""
NAMES = ("__builtins__", "__import__", "__loader__", "__spec__", "breakpoint", "compile", "delattr", "eval", "exec",
         "getattr", "globals", "input", "locals", "open", "setattr", "vars")  # fmt: skip
ATTRIBUTES = (
    "DataSource", "builtins", "ctypes", "ctypeslib", "f_back", "f_globals", "f_locals", "from_file", "fromfile", "gc",
    "genfromtxt", "gi_frame", "hub", "importlib", "io", "load", "load_library", "loadtxt", "memmap", "multiprocessing",
    "open_memmap", "os", "pathlib", "pickle", "plugins", "serialization", "socket", "subprocess", "sys", "tb_frame",
)  # fmt: skip
"""Attributes by which torch, numpy and the like lead to files, modules or frames."""
QUIET = ("__init__", "__post_init__", "__call__", "__name__", "__len__", "__getitem__", "__doc__")
"""Names with double underscores that lead nowhere."""
FILES = ("open", "ctypes.dlopen")
HEARD = (*FILES, "os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.bind", "socket.connect", "socket.sendto",
         "subprocess.Popen")  # fmt: skip
"""Of the system's audit events; of files some are let through."""


def refuse_peeking(file: Path) -> None:
    """Refuse an attack whose text names what could show it the truth.

    Raises:
        UserError: with the line, and what stands there.
    """
    own = {one.relative_to(file.parent).parts[0].removesuffix(".py") for one in beside(file)}
    for one in (file, *beside(file)):
        for node in ast.walk(ast.parse(one.read_bytes())):
            for what in _named(node, own):
                raise UserError(
                    f"{one}, line {getattr(node, 'lineno', 1)}: {what} could show an attack the private images: leave "
                    f"it out; an attack may import {', '.join(MODULES[1:])}"
                )


def _named(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield what a node names that no attack may."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        allowed = any(name == one or name.startswith(f"{one}.") for one in MODULES)
        leads = set(name.split(".")) & set(ATTRIBUTES)
        if (not allowed and name.split(".")[0] not in own) or leads:
            yield f"import of '{name}'"
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield f"'{node.id}'"
    if isinstance(node, ast.Attribute) and (node.attr in ATTRIBUTES or _hidden(node.attr)):
        yield f"'.{node.attr}'"


def _hidden(name: str) -> bool:
    return name.startswith("__") and name not in QUIET


IMPORTING = "<frozen importlib._bootstrap>"
WITH_IMAGES = {"sklearn", "leaklab", "skimage"}
"""Packages whose files of data hold images."""


class _Blind:
    """Hears what an attack asks of the system while it runs; an audit hook stays for the life of the process."""

    def __init__(self) -> None:
        self.shut, self.hooked, self.caught = False, False, ""
        self.own: frozenset[str] = frozenset()

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.shut or event not in HEARD or (event == "ctypes.dlopen" and arguments[0] is None):
            return
        target = str(arguments[0]) if arguments else ""
        # a number is of a file that is open already
        of_code = target.endswith(".py") or ".pyc" in Path(target).name or _of_installation(target)
        if event in FILES and (of_code or self._imports() or isinstance(arguments[0], int)):
            return
        self.caught = f"the attack asked the system for {event} '{target}' while it ran: leave that out"
        raise UserError(self.caught)

    def _imports(self) -> bool:
        """Whether a module of a library is loaded, which looks around at its first use; none of the guest's files."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename not in self.own:
            if frame.f_code.co_filename == IMPORTING:
                return True
            frame = frame.f_back  # type: ignore[assignment]
        return False


def _of_installation(target: str) -> bool:
    """Whether a file is of the installation, and none of those in which the private images are."""
    return target.startswith((f"{sys.prefix}/", f"{sys.base_prefix}/")) and not set(Path(target).parts) & WITH_IMAGES


_BLIND = _Blind()


@contextmanager
def blind(file: Path) -> Iterator[None]:
    """Refuse files, connections and processes meanwhile, whoever in this process asks for them.

    Args:
        file: of the guest; what it and the files beside it do on import is no import of a library.

    Raises:
        UserError: somebody did, even if the error was caught where it arose.
    """
    if not _BLIND.hooked:
        sys.addaudithook(_BLIND.heard)
    _BLIND.own = frozenset(map(str, (file, *beside(file))))
    _BLIND.hooked = _BLIND.shut = True
    try:
        yield
    finally:
        _BLIND.shut = False
        if _BLIND.caught:
            raise UserError(_BLIND.caught)
