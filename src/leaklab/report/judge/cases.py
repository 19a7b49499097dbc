"""The cases of a check: every comparison that it rests on, each with its name, its truth and its margin."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from leaklab.report.judge.estimates import Estimate, Truth
from leaklab.report.judge.evaluation import Names, comparisons_of, rounds_of, value_of
from leaklab.report.judge.functions import every, truth
from leaklab.report.judge.intervals import Margin
from leaklab.report.judge.terms import bracketed, in_words, key_in_words
from leaklab.report.numbers.words import MissingNumber, NumberMissingError

MOST_NAMED = 4
"""How many of the cases that hold are named, before a count stands for the rest."""
MOST_FAILURES_NAMED = 8
"""How many of those that fail are."""
Bound = tuple[tuple[str, Any], ...]
UNKNOWN = Truth(False, False, True)


@dataclass(frozen=True)
class Part:
    """One comparison of a check.

    Attributes:
        text: the comparison as it is written.
        bound: what the loops around it bind, by name.
        truth: whether it holds.
        margin: its two sides, where they are numbers.
        missing: the number that it lacks; None where it could be made.
    """

    text: str
    bound: Bound
    truth: Truth = UNKNOWN
    margin: Margin | None = None
    missing: NumberMissingError | None = None

    @property
    def keys(self) -> Bound:
        """The loops' values that say which case it is, measured ones aside."""
        return tuple((name, value) for name, value in self.bound if not isinstance(value, Estimate | MissingNumber))

    @property
    def place(self) -> str:
        """Names the same comparison on other results: what it says and the loops' values, measured ones aside."""
        keys = [f"{name}={value!r}" for name, value in self.keys]
        return f"{self.text} {' '.join(keys)}"


@dataclass(frozen=True)
class Case:
    """One round of a check's loops, such as a data set; what stands outside all loops is a case as well.

    Attributes:
        parts: its comparisons, at least one.
    """

    parts: tuple[Part, ...]

    @property
    def keys(self) -> Bound:
        """The loops' values that say which case it is."""
        return self.parts[0].keys

    @property
    def made(self) -> tuple[Part, ...]:
        """The comparisons that could be made."""
        return tuple(part for part in self.parts if part.missing is None)

    @property
    def truth(self) -> Truth:
        """Whether all that could be compared holds."""
        return every([part.truth for part in self.made])

    @property
    def missing(self) -> NumberMissingError | None:
        """Why it is not judged: a part lacks a number, and no other surely fails. None where it is judged."""
        lacking = next((part.missing for part in self.parts if part.missing is not None), None)
        return lacking if self.truth.possibly else None

    @property
    def holds(self) -> bool:
        """Whether all of its parts are there and hold, by the numbers themselves."""
        return self.missing is None and self.truth.point

    @property
    def worst(self) -> Part:
        """The part that it hangs on."""
        return _deciding(self.made) or self.parts[0]


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Attributes:
        parts: every comparison, in the order of writing.
    """

    parts: tuple[Part, ...]

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The rounds of the loops, each with all of its comparisons."""
        found: dict[str, list[Part]] = {}
        for part in self.parts:
            found.setdefault(repr(part.keys), []).append(part)
        return tuple(Case(tuple(parts)) for parts in found.values())

    @property
    def judged(self) -> tuple[Case, ...]:
        """The cases that have all of their numbers, or fail surely without some."""
        return tuple(case for case in self.cases if case.missing is None)

    @property
    def absent(self) -> tuple[Case, ...]:
        """The cases that lack a number."""
        return tuple(case for case in self.cases if case.missing is not None)

    @property
    def answers(self) -> bool:
        """Whether a word may follow: something surely fails, or no case is lacking but rounds of loops, and not all."""
        if any(not case.truth.possibly for case in self.judged):
            return True
        return bool(self.judged or not self.cases) and all(case.keys for case in self.absent)

    @property
    def truth(self) -> Truth:
        """Whether all cases that are judged hold."""
        return every([case.truth for case in self.judged])

    @property
    def made(self) -> tuple[Part, ...]:
        """The comparisons of the cases that are judged, as far as they could be made."""
        return tuple(part for case in self.judged for part in case.made)

    @property
    def deciding(self) -> Part | None:
        """The comparison that the outcome hangs on: of those that share its truth the one with the worst margin."""
        return _deciding(self.made)

    def without(self, lacking: Mapping[str, NumberMissingError]) -> "Outcome":
        """Return the same with some cases as missing, by ``repr`` of their keys."""
        return Outcome(tuple(replace(part, missing=lacking.get(repr(part.keys), part.missing)) for part in self.parts))

    def named(self, cases: Iterable[Case]) -> list[str]:
        """Return the cases by their loops' values, in words: ``EMNIST, 20 clients``.

        Of rows only the keys are named in which the cases of this check differ. A case without a loop has no name.
        """
        rows = [value for case in self.cases for _, value in case.keys if isinstance(value, dict)]
        same = {key for row in rows[:1] for key in row if all(other.get(key) == row[key] for other in rows)}
        same = same if len(self.cases) > 1 else set()
        return list(dict.fromkeys(filter(None, (_case_name(case, same) for case in cases))))

    @property
    def failing(self) -> tuple[Case, ...]:
        """The cases that do not hold, by the numbers themselves."""
        return tuple(case for case in self.judged if not case.holds)

    def holding(self) -> str:
        """Return which cases hold, in words; empty where the check has but one."""
        names = self.named(case for case in self.judged if case.holds)
        return f"holds for {some_of(names)}" if names and len(self.cases) > 1 else ""

    def lacking(self) -> str:
        """Return which cases could not be judged, with the reason; empty where all could be."""
        reasons: dict[str, list[Case]] = {}
        for case in self.absent:
            reasons.setdefault(case.missing.short.removeprefix("not run: ") if case.missing else "", []).append(case)
        parts = []
        for reason, cases in reasons.items():
            names = self.named(cases)
            parts.append(f"not at hand: {some_of(names, MOST_FAILURES_NAMED)} ({reason})" if names else reason)
        return "; ".join(parts)


def parts_of(node: ast.expr, names: Names, bound: Mapping[str, Any] | None = None) -> Iterator[Part]:
    """Yield the comparisons of an expression: the parts of ``and``, each round of ``all(... for ...)``.

    Anything else is one part; a number that is missing ends only the part that needs it.

    Raises:
        TypeError: it is not true or false, or combines values that do not go together.
    """
    own = dict(bound or {})
    inner = {**names, **own}
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for part in node.values:
            yield from parts_of(part, names, own)
        return
    loop = _loop_of_all(node)
    if loop is None:
        yield from _made(node, inner, own)
        return
    try:
        for values in rounds_of(loop, inner):
            yield from parts_of(loop.elt, names, {**own, **values})
    except NumberMissingError as missing:  # the loop itself needs a number that is not there
        yield Part(ast.unparse(node), tuple(own.items()), missing=missing)


def some_of(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return some names, ``EMNIST (20 clients), MNIST``, and how many more there are."""
    named = ", ".join(map(bracketed, names[:most]))
    return f"{named} and {len(names) - most} more" if len(names) > most else named


def _made(node: ast.expr, names: Names, bound: Mapping[str, Any]) -> Iterator[Part]:
    text, own = ast.unparse(node), tuple(bound.items())
    try:
        if isinstance(node, ast.Compare):
            made = [Part(text, own, one.truth, one.margin) for one in comparisons_of(node, names)]
        else:
            made = [Part(text, own, truth(value_of(node, names)))]
    except NumberMissingError as missing:
        made = [Part(text, own, missing=missing)]
    yield from made


def _loop_of_all(node: ast.expr) -> ast.GeneratorExp | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all" and len(node.args) == 1:
        argument = node.args[0]
        return argument if isinstance(argument, ast.GeneratorExp) else None
    return None


def _deciding(parts: Sequence[Part]) -> Part | None:
    whole = every([part.truth for part in parts])
    alike = [part for part in parts if _rank(part.truth) == _rank(whole)]
    measured = [part for part in alike if part.margin is not None]
    return min(measured, key=_relative) if measured else next(iter(alike), None)


def _rank(value: Truth) -> tuple[bool, bool]:
    return value.surely, value.possibly


def _relative(part: Part) -> float:
    return part.margin.relative if part.margin else 0.0


def _case_name(case: Case, same: set[str]) -> str:
    return ", ".join(filter(None, (_worded(name, value, same) for name, value in case.keys)))


def _worded(name: str, value: Any, same: set[str]) -> str:
    """Return a loop's value in words; a row tells the reader which case it is even if the check ignores it."""
    if isinstance(value, dict):
        return in_words({key: inner for key, inner in value.items() if key not in same})
    return "" if name == "_" or isinstance(value, tuple | list) else key_in_words(name, value)
