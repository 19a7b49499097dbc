"""The line of a verdict agrees with a second, plain evaluation of each case, whatever the table says.

Random tables of a few data sets: numbers with intervals, with one seed, gone, or never written. The plain evaluation
shares no code with ``report/judge``: it looks numbers up in a dictionary and compares ends of intervals by hand.
"""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.report.judge.claims import Claim
from leaklab.report.judge.judging import judge
from leaklab.report.numbers.results import ResultRow, ResultTable

SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "lfw": "LFW", "x": "x"}
KINDS = {"iid": "IID data", "non-iid": "non-IID data"}
GONE = "not run: data not here"
BAR = 3


@dataclass(frozen=True)
class Cell:
    """One number of a table: ``reach`` None for one seed, ``value`` None for a number that is gone."""

    value: int | None
    reach: int | None = 0


NUMBERS = st.one_of(
    st.builds(Cell, st.integers(0, 8), st.sampled_from([0, 0, 1, 2, 3, None])),
    st.just(Cell(None)),
    st.none(),  # never written
)
TABLES = st.fixed_dictionaries({
    (kind, name, metric): NUMBERS for kind in KINDS for name in SETS for metric in ("found", "bar", "low", "base")
})  # fmt: skip


def table(cells):
    rows = []
    for (kind, name, metric), cell in cells.items():
        if cell is None:
            continue
        keys = {"kind": kind, "set": name}
        if cell.value is None:
            rows.append(ResultRow("lrp", "table1", keys, metric, None, n=0, note=GONE))
            continue
        ends = {} if cell.reach is None else {"ci_low": cell.value - cell.reach, "ci_high": cell.value + cell.reach}
        rows.append(ResultRow("lrp", "table1", keys, metric, cell.value, n=1 if cell.reach is None else 3, **ends))
    return ResultTable(tuple(rows))


def span(cell):
    """Return low, value and high of a number that is there; None of one that is not."""
    if cell is None or cell.value is None:
        return None
    return (
        (-99, cell.value, 99) if cell.reach is None else (cell.value - cell.reach, cell.value, cell.value + cell.reach)
    )


def above(left, right):
    """Return surely, as they are and possibly: whether ``left`` is above ``right``; None where one is missing."""
    if left is None or right is None:
        return None
    return left[0] > right[2], left[1] > right[1], left[2] > right[0]


def under(left, bar):
    """Return the same of: at most ``bar``."""
    return None if left is None else (left[2] <= bar, left[1] <= bar, left[0] <= bar)


def case(cells, kind, name):
    """Return ``holds``, ``fails`` or ``lacks``, and what is sure: ``yes``, ``no`` or ``open``."""
    own = {metric: span(cells[kind, name, metric]) for metric in ("found", "bar", "low")}
    parts = [above(own["found"], own["bar"]), under(own["low"], BAR)]
    known = [part for part in parts if part is not None]
    if any(not part[2] for part in known):
        return "fails", "no"
    if len(known) < len(parts):
        return "lacks", "open"
    sure = "yes" if all(part[0] for part in known) else "open"
    return ("holds" if all(part[1] for part in known) else "fails"), sure


CHECK = (
    "all(T('table1','found',kind=k,set=s)>T('table1','bar',kind=k,set=s) and T('table1','low',kind=k,set=s)<=3"
    f" for k in {tuple(KINDS)} for s in {tuple(SETS)})"
)
CLAIM = Claim("X-01", "lrp", "table1", "s", CHECK, sentence="number found")
PREMISE = f"all(T('table1','base',kind=k,set=s)>3 for k in {tuple(KINDS)} for s in {tuple(SETS)})"


CLAUSE = re.compile(r"(?:; |: )(?=holds for |fails for |not at hand: |the deciding |table1: )")


def named(line, what):
    """Return the cases that a verdict's line names in its clauses that begin with some words."""
    told = " ".join(clause for clause in CLAUSE.split(line) if clause.startswith(what))
    return {
        (kind, name)
        for kind, word in KINDS.items()
        for name, shown in SETS.items()
        if re.search(rf"(?<!non-){re.escape(word)} \({re.escape(shown)}[;)]", told)
    }


@settings(max_examples=400, deadline=None)
@given(TABLES)
def test_what_holds_what_fails_and_what_is_missing_is_what_a_plain_evaluation_finds(cells):
    found = {(kind, name): case(cells, kind, name) for kind in KINDS for name in SETS}
    own = judge(CLAIM, table(cells), ResultTable()).judgement
    judged = [sure for word, sure in found.values() if word != "lacks"]
    if not judged:
        assert own.verdict == "not run"
        assert own.sentence
        return
    word = "not reproduced" if "no" in judged else "undecided" if "open" in judged else "reproduced"
    assert own.verdict == word
    for said, what in (("holds", "holds for"), ("fails", "fails for"), ("lacks", "not at hand:")):
        cases = {key for key, (state, _) in found.items() if state == said}
        shown = named(own.sentence, what)
        assert shown <= cases, (said, own.sentence)
        assert len(shown) == len(cases) or f"and {len(cases) - len(shown)} more" in own.sentence, (said, own.sentence)


@settings(max_examples=200, deadline=None)
@given(TABLES)
def test_a_word_is_given_only_where_the_premise_was_tested(cells):
    claim = Claim(
        "X-01", "lrp", "table1", "s", CHECK, sentence="number found", premise=PREMISE, premise_sentence="base"
    )
    own = judge(claim, table(cells), ResultTable()).judgement
    base = {key: above(span(cells[*key, "base"]), (BAR, BAR, BAR)) for key in ((k, s) for k in KINDS for s in SETS)}
    states = {key: case(cells, *key) for key in base}
    tested = [sure for key, (word, sure) in states.items() if word != "lacks" and base[key] is not None]
    known = [part for part in base.values() if part is not None]
    if own.verdict == "no premise":
        assert not all(part[1] for part in known)
    elif own.verdict in ("reproduced", "not reproduced"):
        assert all(part[0] for part in known)
        assert ("no" in tested) == (own.verdict == "not reproduced")
        assert tested
    elif own.verdict == "not run":
        assert not tested or not known or "no" not in tested


@pytest.mark.parametrize(
    ("values", "word"),
    [((), "not run"), ((5, 5, 5, 5, 5, 5), "undecided"), ((None,) * 6, "not run")],
    ids=["no table", "six equal values", "all trainings diverged"],
)
def test_where_nothing_can_be_said_there_is_a_word_and_no_number(values, word):
    rows = tuple(
        ResultRow("lrp", "figure1", {"index": place}, name, value, n=1, note="" if value else "diverged: all 3 runs")
        for name in ("x", "y")
        for place, value in enumerate(values)
    )
    claim = Claim(
        "X-01", "lrp", "figure1", "s", "spearman(S('figure1','x'),S('figure1','y'))>0.5", sentence="agreement"
    )
    own = judge(claim, ResultTable(rows), ResultTable()).judgement
    assert own.verdict == word
    assert own.sides is None
    assert "nan" not in own.sentence
    assert own.sentence
