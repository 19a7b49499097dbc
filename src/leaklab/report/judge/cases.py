"""The cases of a check: every comparison that it rests on, each with its name, its truth and its margin."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leaklab.report.judge.comparisons import Margin
from leaklab.report.judge.estimates import Estimate, Truth
from leaklab.report.judge.evaluation import Names, comparisons_of, rounds_of, value_of
from leaklab.report.judge.functions import every, truth
from leaklab.report.numbers.missing import MissingNumber, NumberMissingError

MOST_CASES_NAMED = 4
Bound = tuple[tuple[str, Any], ...]
UNKNOWN = Truth(False, False, True)


@dataclass(frozen=True)
class Case:
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
    def place(self) -> str:
        """Names the same comparison on other results: what it says and the loops' values, measured ones aside."""
        keys = [f"{name}={value!r}" for name, value in self.bound if not isinstance(value, Estimate | MissingNumber)]
        return f"{self.text} {' '.join(keys)}"


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    Attributes:
        cases: every comparison, in the order of writing.
    """

    cases: tuple[Case, ...]

    @property
    def made(self) -> tuple[Case, ...]:
        """The comparisons that could be made."""
        return tuple(case for case in self.cases if case.missing is None)

    @property
    def missing(self) -> tuple[Case, ...]:
        """The comparisons that lack a number."""
        return tuple(case for case in self.cases if case.missing is not None)

    @property
    def truth(self) -> Truth:
        """Whether all comparisons that could be made hold."""
        return every([case.truth for case in self.made])

    @property
    def deciding(self) -> Case | None:
        """The comparison that the outcome hangs on: of those that share its truth the one with the worst margin."""
        whole = self.truth
        alike = [case for case in self.made if _rank(case.truth) == _rank(whole)]
        measured = [case for case in alike if case.margin is not None]
        return min(measured, key=_relative) if measured else next(iter(alike), None)

    def named(self, cases: tuple[Case, ...]) -> list[str]:
        """Return the loops' values of some cases: ``mnist`` for a text, else e.g. ``dataset mnist, x 0.3``.

        Of rows only the keys are named in which the cases of this check differ. A case without a loop is named by
        its text, the only one of a check not at all.
        """
        rows = [value for case in self.cases for _, value in case.bound if isinstance(value, dict)]
        same = {key for row in rows[:1] for key in row if all(other.get(key) == row[key] for other in rows)}
        same = same if len(self.cases) > 1 else set()
        texts = {case.text for case in self.cases}
        names = (_case_name(case, same) or (case.text if len(texts) > 1 else "") for case in cases)
        return list(dict.fromkeys(filter(None, names)))

    def failures(self) -> tuple[str, ...]:
        """Return the names of the cases that do not hold, the sure ones where there are such."""
        failing = [case for case in self.made if not case.truth.point]
        sure = [case for case in failing if not case.truth.possibly]
        return tuple(self.named(tuple(sure or failing)))

    def others(self) -> str:
        """Return which cases hold and which could not be made, with the reason; empty where all could be."""
        reasons: dict[str, list[Case]] = {}
        for case in self.missing:
            reasons.setdefault(_reason(case), []).append(case)
        holding = self.named(tuple(case for case in self.made if case.truth.point and case.bound))
        parts = [f"holds for {some_of(holding)}"] if holding and reasons else []
        for reason, cases in reasons.items():
            names = self.named(tuple(case for case in cases if case.bound))
            parts.append(f"not run{f' for {some_of(names)}' if names else ''}: {reason}")
        return "; ".join(parts)


def cases_of(node: ast.expr, names: Names, bound: Mapping[str, Any] | None = None) -> Iterator[Case]:
    """Yield the comparisons of an expression: the parts of ``and``, each round of ``all(... for ...)``.

    Anything else is one case; a number that is missing ends only the case that needs it.

    Raises:
        TypeError: it is not true or false, or combines values that do not go together.
    """
    own = dict(bound or {})
    inner = {**names, **own}
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for part in node.values:
            yield from cases_of(part, names, own)
        return
    loop = _loop_of_all(node)
    if loop is None:
        yield from _made(node, inner, own)
        return
    try:
        for values in rounds_of(loop, inner):
            yield from cases_of(loop.elt, names, {**own, **values})
    except NumberMissingError as missing:  # the loop itself needs a number that is not there
        yield Case(ast.unparse(node), tuple(own.items()), missing=missing)


def some_of(names: list[str]) -> str:
    """Return some names and how many more there are."""
    named = ("; " if any(", " in name for name in names) else ", ").join(names[:MOST_CASES_NAMED])
    return f"{named} and {len(names) - MOST_CASES_NAMED} more" if len(names) > MOST_CASES_NAMED else named


def _made(node: ast.expr, names: Names, bound: Mapping[str, Any]) -> Iterator[Case]:
    text, own = ast.unparse(node), tuple(bound.items())
    try:
        if isinstance(node, ast.Compare):
            made = [Case(text, own, one.truth, one.margin) for one in comparisons_of(node, names)]
        else:
            made = [Case(text, own, truth(value_of(node, names)))]
    except NumberMissingError as missing:
        made = [Case(text, own, missing=missing)]
    yield from made


def _loop_of_all(node: ast.expr) -> ast.GeneratorExp | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "all" and len(node.args) == 1:
        argument = node.args[0]
        return argument if isinstance(argument, ast.GeneratorExp) else None
    return None


def _reason(case: Case) -> str:
    """Return why a case could not be made."""
    return case.missing.short.removeprefix("not run: ") if case.missing else ""


def _rank(value: Truth) -> tuple[bool, bool]:
    return value.surely, value.possibly


def _relative(case: Case) -> float:
    return case.margin.relative if case.margin else 0.0


def _case_name(case: Case, same: set[str]) -> str:
    shown = [(name, value) for name, value in case.bound if _is_shown(name, value)]
    return ", ".join(filter(None, (_value_text(name, value, same) for name, value in shown)))


def _is_shown(name: str, value: Any) -> bool:
    """Return whether a loop's name tells the reader which case it is; a row does even if the check ignores it."""
    return not isinstance(value, MissingNumber) and (name != "_" or isinstance(value, dict))


def _value_text(name: str, value: Any, same: set[str]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items() if key not in same)
    return _plain(value) if isinstance(value, str) else f"{name} {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, Estimate | float):
        return f"{value.value if isinstance(value, Estimate) else value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
