"""What was corrected: the words of then beside those of now."""

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.site.findings import Change, corrected, load_changes
from leaklab.report.site.questions import Asked

TABLE = ResultTable((ResultRow("lrp", "table1", {"m": "a"}, "mse", 0.25, attacker="paper"),))
WORDS = {"LRP-01": "undecided", "LRP-02": "reproduced", "LRP-03": "undecided"}


def statements(**fields):
    return [text for one in corrected([Change(why="w", **fields)], WORDS, {"lrp": "An answer."}, Asked(TABLE))
            for text in one.statements]  # fmt: skip


def test_claims_are_told_by_their_words_then_and_now():
    was = {"LRP-01": "reproduced", "LRP-03": "reproduced", "LRP-02": "not run"}
    assert statements(claims=was) == [
        "LRP-01, LRP-03: \N{CHECK MARK} reproduced, now \N{ALMOST EQUAL TO} undecided",
        "LRP-02: \N{EN DASH} not run, now \N{CHECK MARK} reproduced",
    ]


def test_a_word_that_did_not_change_is_not_told_nor_a_reason_without_any():
    assert statements(claims={"LRP-01": "undecided"}) == []
    assert corrected([Change(why="w", claims={"LRP-01": "undecided"})], WORDS, {}, Asked(TABLE)) == ()


def test_a_statement_has_its_numbers_of_now():
    now = "it is {T('table1', 'mse', m='a') | .2f}."
    assert statements(paper="lrp", was="It was 0.5.", now=now) == ["It said: *It was 0.5.* Now: it is 0.25."]
    assert statements(paper="lrp", was="It was.", now="answer") == ["It said: *It was.* Now: An answer."]
    (gone,) = statements(paper="lrp", was="It was.", now="{T('table9', 'mse') | .2f}")
    assert "it cannot be said (table9 has no results at this scale)" in gone


@pytest.mark.parametrize("fields", [{}, {"was": "x"}, {"was": "x", "now": "answer"}, {"now": "answer", "paper": "lrp"}])
def test_a_reason_without_a_whole_statement_is_refused(fields):
    with pytest.raises(ValueError, match=r"name claims|go together"):
        Change(why="w", **fields)


def test_a_claim_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="no claim LRP-99"):
        statements(claims={"LRP-99": "reproduced"})


def test_the_projects_own_changes_name_claims_that_are_there():
    assert len(load_changes()) > 5
