"""A few drawn cases of each kind, and that what judges them can tell a loss from a refusal."""

import os

import pytest
from cases.__main__ import KINDS
from cases.callers import Call, Said, forked, judged
from cases.outcomes import LOST, REFUSED, TRACEBACK, Wrong, refused, tried, unchanged

from leaklab.records.errors import UserError

FEW = {"command lines": 12, "surroundings": 12}


@pytest.mark.parametrize("kind", KINDS)
def test_cases_are_taken_or_refused_in_one_line(tmp_path, kind):
    tally = tried(KINDS[kind][0], FEW.get(kind, 40), tmp_path)
    assert not tally.wrong, "\n".join(tally.examples.values())
    assert tally.cases >= FEW.get(kind, 40) // 2


def test_five_thousand_are_drawn():
    assert sum(number for _, number in KINDS.values()) >= 5000


def test_a_traceback_and_a_loss_are_counted_and_end_no_run(tmp_path):
    def fail(*_):
        raise KeyError("round")

    def lose(*_):
        with unchanged(tmp_path):
            (tmp_path / "a").unlink()
        return REFUSED

    assert tried(fail, 3, tmp_path).counts[TRACEBACK] >= 1
    (tmp_path / "a").write_text("x")
    assert tried(lose, 1, tmp_path).counts[LOST] == 1


@pytest.mark.parametrize("line", ["", "a\nb", "a\x0bb"])
def test_a_refusal_of_no_one_line_is_a_loss(line):
    error = UserError("x")
    error.args = (line,)
    with pytest.raises(Wrong):
        refused(error)


def test_a_call_with_a_traceback_or_two_lines_is_none():
    call = Call(["items"], ".")
    with pytest.raises(RuntimeError):
        judged(call, Said(1, "", "Traceback (most recent call last)\n"))
    with pytest.raises(Wrong):
        judged(call, Said(1, "", "leaklab: a\nleaklab: b\n"))
    assert judged(call, Said(1, "", "leaklab: a\n")) == REFUSED


def test_a_child_that_cannot_become_the_command_never_goes_on_as_a_second_run(tmp_path):
    """It once did: each forked further runs of all cases, until the machine stood still."""
    own = os.getpid()
    with pytest.raises(RuntimeError, match="the child could not become the command"):
        forked(Call([], str(tmp_path / "no such folder")))
    assert os.getpid() == own
