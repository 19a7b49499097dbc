"""Which clocks and global generators a file asks, read from its text: nothing of it runs, and torch is not imported.

No seed repeats what a clock says, so a plug-in of a user that names one is refused before anything runs
(``refuse_clocks``). What asks the system by other ways (``getattr``, a library) is not seen here.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from leaklab.records.errors import UserError

PACKAGE_FOLDER = Path(__file__).parents[1]
CLOCKS = frozenset({
    *(f"time.{name}{unit}" for unit in ("", "_ns")
      for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")),
    "time.localtime", "time.gmtime", "time.ctime", "time.strftime", "datetime.datetime.now",
    "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today", "os.urandom", "os.getrandom",
    "random.SystemRandom", "uuid.uuid1", "uuid.uuid4", "pandas.Timestamp.now",
})  # fmt: skip
"""What no seed repeats: clocks, and the system's randomness; so is all of ``secrets``."""
TORCH = frozenset({
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
    "multinomial", "poisson", "binomial", "manual_seed", "seed", "Dropout", "dropout",
})  # fmt: skip
DRAWING = frozenset({"normal_", "uniform_", "bernoulli_", "random_", "exponential_", "cauchy_", "geometric_"})
"""Methods of torch's tensors."""
MEASURING = ("theory", "report/figures")
"""Rooms whose plug-ins may read clocks: checks may measure times, and figures show the numbers of others."""
OWN = frozenset({"Generator", "default_rng", "SeedSequence", "Philox", "PCG64", "MT19937", "RandomState", "Random"})
"""Generators with a seed of their own."""


def clock_of(file: Path) -> tuple[int, str] | None:
    """Return the first line of a file that names a clock, and its name; None where none does.

    Raises:
        SyntaxError: it is not Python.
    """
    found = [(line, name) for line, name in _named(file) if name in CLOCKS or name.startswith("secrets.")]
    return min(found, default=None)


@cache
def refuse_clocks(room: str, file: Path) -> None:
    """Refuse a plug-in of a user that names a clock, or imports a file from beside it that does.

    Those of the house are asked by a test: where they bound a search by processor time, it says which and why.

    Args:
        room: of the plug-in.
        file: where it stands.

    Raises:
        UserError: with file, line and what to do.
    """
    if room in MEASURING or file.is_relative_to(PACKAGE_FOLDER):
        return
    for one in _with_what_lies_beside(file):
        if found := clock_of(one):
            line, name = found
            raise UserError(
                f"{one}, line {line}: it asks {name}, which no seed repeats: count steps in place of seconds, and "
                "draw from the streams that it is given"
            )


def _with_what_lies_beside(file: Path) -> tuple[Path, ...]:
    found = [file]
    for one in found:
        roots = {name.partition(".")[0] for _, name in _imported(ast.parse(one.read_bytes()))}
        beside = [file.parent / f"{root}.py" for root in sorted(roots)]
        found += [other for other in beside if other not in found and other.is_file()]
    return tuple(found)


def line_drawing(file: Path, generator: str) -> int | None:
    """Return the first line of a file that names a draw from a global generator; None where none does.

    Args:
        file: of Python.
        generator: ``torch``, ``numpy`` or ``random``.

    Raises:
        SyntaxError: it is not Python.
    """
    return min((line for line, name in _named(file) if _draws(name, generator)), default=None)


def _draws(name: str, generator: str) -> bool:
    root, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    if last in OWN:
        return False
    if generator == "torch":
        return last in DRAWING or (root == "torch" and last in TORCH)
    return name.startswith({"numpy": "numpy.random.", "random": "random."}[generator])


def _named(file: Path) -> tuple[tuple[int, str], ...]:
    return tuple(names_in(ast.parse(file.read_bytes())))


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name (``numpy.random.rand``) of all that is asked of imported modules; of others ``.name``.

    Args:
        tree: of a file.
    """
    known = dict(_imported(tree))
    for node in ast.walk(tree):
        path: list[str] = []
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            path.insert(0, root.attr)
            root = root.value
        if isinstance(root, ast.Name) and root.id in known and isinstance(root.ctx, ast.Load):
            yield node.lineno, ".".join([known[root.id], *path])  # type: ignore[attr-defined]
        elif isinstance(node, ast.Attribute):
            yield node.lineno, f".{node.attr}"


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                root = one.name.partition(".")[0]
                yield one.asname or root, one.name if one.asname else root
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"
