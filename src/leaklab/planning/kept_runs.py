"""The runs of an item at a scale as plain data, so that another process need not expand, check and name them again.

Specs are written as tables: each different part once, behind the parts that stand in it, so that what runs share they
share again. A spec is rebuilt without being validated: it was, and what is kept is found by all that decides it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from leaklab.items.expand import PlannedRun
from leaklab.records.record import Record
from leaklab.specs.base import Spec
from leaklab.specs.stages import SPECS

REFERENCE, TUPLE, MAPPING = "r", "t", "m"
"""How what JSON has no word for is written: a part by its place in the table, a tuple, a mapping."""
SCALARS = frozenset({str, int, float, bool, type(None)})


class KeptJob(NamedTuple):
    """A run with what a plan knows of it: its id, and stage and id of the runs that it reads."""

    spec: Spec
    name: str
    reads: tuple[tuple[str, str], ...]


class KeptRuns(NamedTuple):
    """What an item asks for at a scale, and every job that this needs, in the order in which a plan adds them."""

    runs: list[PlannedRun]
    jobs: list[KeptJob]


class NotPlainError(Exception):
    """Something has no form here, so that it cannot be kept."""


def written(kept: KeptRuns) -> dict[str, Any]:
    """Return the same in JSON's types.

    Raises:
        NotPlainError: a value has a type for which there is no form.
    """
    specs, choices = _Parts(), _Values()
    runs = [
        [
            run.block,
            run.variant,
            None if run.spec is None else specs.place(run.spec),
            [choices.place(part) for pair in run.choice.items() for part in pair],
            run.attacker,
            [specs.place(one) for one in run.kept],
        ]
        for run in kept.runs
    ]
    jobs = [[specs.place(job.spec), job.name, [list(read) for read in job.reads]] for job in kept.jobs]
    return {"kinds": list(specs.kinds), "parts": specs.table, "values": choices.table, "runs": runs, "jobs": jobs}


def rebuilt(content: Mapping[str, Any]) -> KeptRuns:
    """Return what was written."""
    known = kinds()
    parts: list[Any] = []
    for kind, values in content["parts"]:
        model = known[content["kinds"][kind]]
        fields = zip(_fields(model), [_read(value, parts) for value in values], strict=True)
        parts.append(model.model_construct(**dict(fields)))
    values = [_read(value, ()) for value in content["values"]]
    runs = []
    for block, variant, spec, choice, attacker, kept in content["runs"]:
        said = {values[key]: values[value] for key, value in zip(choice[::2], choice[1::2], strict=True)}
        own = None if spec is None else parts[spec]
        runs.append(PlannedRun(block, variant, own, said, attacker, tuple(parts[one] for one in kept)))
    jobs = [KeptJob(parts[spec], name, tuple(map(tuple, reads))) for spec, name, reads in content["jobs"]]
    return KeptRuns(runs, jobs)


@cache
def kinds() -> Mapping[str, type[Record]]:
    """Return every class that is a part of some spec, by its name."""
    found: dict[str, type[Record]] = {}
    waiting: list[type[Record]] = list(SPECS)
    while waiting:
        kind = waiting.pop()
        if found.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"two parts of specs are called {kind.__name__}")
        inside = (one for info in kind.model_fields.values() for one in _models(info.annotation))
        waiting.extend(one for one in inside if one.__name__ not in found)
    return found


@cache
def _fields(kind: type[Record]) -> tuple[str, ...]:
    return tuple(kind.model_fields)


def _models(annotation: Any) -> Iterator[type[Record]]:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)


class _Parts:
    """Parts of specs, each different one once."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.table: list[list[Any]] = []
        self._places: dict[str, int] = {}
        self._known: dict[int, tuple[Record, int]] = {}  # kept, so that no other takes the place of one in memory

    def place(self, part: Record) -> int:
        if id(part) not in self._known:
            self._known[id(part)] = part, self._entered(part)
        return self._known[id(part)][1]

    def _entered(self, part: Record) -> int:
        kind, values = type(part), vars(part)
        if kinds().get(kind.__name__) is not kind or values.keys() != set(_fields(kind)):
            raise NotPlainError(kind.__name__)
        number = self.kinds.setdefault(kind.__name__, len(self.kinds))
        entry = [number, [_written(values[name], self) for name in _fields(kind)]]
        # by its text, as 1 and 1.0 and True are equal
        place = self._places.setdefault(repr(entry), len(self.table))
        if place == len(self.table):
            self.table.append(entry)
        return place


class _Values:
    """Plain values, each different one once."""

    def __init__(self) -> None:
        self.table: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        entry = _written(value, None)
        place = self._places.setdefault(repr(entry), len(self.table))
        if place == len(self.table):
            self.table.append(entry)
        return place


def _written(value: Any, parts: _Parts | None) -> Any:
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is dict and all(type(key) is str for key in value):
        return {MAPPING: {key: _written(inner, parts) for key, inner in value.items()}}
    if kind is list or kind is tuple:
        inside = [_written(inner, parts) for inner in value]
        return inside if kind is list else {TUPLE: inside}
    if isinstance(value, Record) and parts is not None:
        return {REFERENCE: parts.place(value)}
    raise NotPlainError(kind.__name__)


def _read(value: Any, parts: Sequence[Any]) -> Any:
    if type(value) is list:
        return [_read(inner, parts) for inner in value]
    if type(value) is not dict:
        return value
    ((form, inside),) = value.items()
    if form == REFERENCE:
        return parts[inside]
    if form == TUPLE:
        return tuple([_read(inner, parts) for inner in inside])
    return {key: _read(inner, parts) for key, inner in inside.items()}
