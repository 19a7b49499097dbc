import pytest

from leaklab.records.errors import UserError
from leaklab.report.judge.claims import Check
from leaklab.report.judge.estimates import Estimate
from leaklab.report.numbers.words import MissingNumber, NumberMissingError

NUMBERS = {"a": Estimate(1.0, 0.5, 1.5), "b": Estimate(2.0, 1.6, 2.4), "c": Estimate(1.2, 1.0, 1.4)}
QUESTIONS = {"T": lambda key: NUMBERS[key]}


def run(text, questions=QUESTIONS):
    return Check("X-01", text, questions).run(questions)


def word(text, questions=QUESTIONS):
    truth = run(text, questions).truth
    return truth.surely if truth.decided else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T('a') < T('b')", True),
        ("T('a') < T('b') < 2", None),
        ("T('a') < T('b') < 1.5", False),
        ("T('a') < T('c')", None),
        ("all(T(k) > 0 for k in ('a', 'b'))", True),
        ("any(T(k) > 1.55 for k in ['a', 'b']) and not T('a') > T('b')", True),
        ("any(T(k) > 1.2 for k in ['a', 'c'])", None),
        ("not T('a') < T('c')", None),
        ("[e for e in E_GRID][0] < 2 and len(E_GRID[1:-1]) == 8", True),
        ("sorted({e for e in E_GRID})[-2:] == [500, 1000]", True),
        ("(1 if 'x' == 'x' else 0) == 1", True),
        ("-T('a') <= -0.5 and 3 // 2 == 1 and 'x' in ('x',) and 'y' not in ('x',)", True),
        ("sum(T(k) > 1.55 for k in ('a', 'b')) == 1", True),
        ("sum(T(k) > 1.2 for k in ('a', 'b', 'c')) >= 2", None),
        ("(T('a') < T('b')) == ('x' in ('x',))", True),
        ("T('a') == 1", None),
        ("T('a') != 3", True),
        ("max(T(k) for k in ('a', 'b')) - min(T('a'), T('c')) <= 2", True),
        ("(1, 'x') != (2, 'x')", True),
    ],
)
def test_what_a_check_can_say(text, expected):
    assert word(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__",
        "T.__globals__",
        "T.__self__.results",
        "E_GRID.index(1) == 0",
        "'{0.__class__}'.format(T)",
        "f'{T}'",
        "(lambda: 1)()",
        "open('x')",
        "eval('1')",
        "getattr(T, 'x')",
        "float(T('a')) < 1",
        "[x := 1]",
        "9 ** 9 ** 9",
        "[0] * 99999999999",
        "T(**{'key': 1})",
        "max(*[1, 2])",
        "unknown > 1",
        "[T for T in (1, 2)] == []",
        "[__x for __x in (1, 2)] == []",
        "b'x' == 1",
        "1; 2",
        "x = 1",
        "await T('a')",
        "",
    ],
)
def test_what_a_check_cannot_say(text):
    with pytest.raises(UserError, match="claim X-01: ") as error:
        run(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "T('a') < 'text'",
        "T('a') in (1, 2)",
        "(T('a'), 1) == (1, 1)",
        "all(k < 1 for k in ('a',) if T(k) > 1)",
        "(1 if T('a') > 1 else 0) == 1",
        "'a' == 1",
        "T('a')('b') < 1",
        "max('a', 'b') == 'b'",
        "all(T(k) > 1)",
    ],
)
def test_values_that_do_not_go_together_name_the_claim(text):
    with pytest.raises(UserError, match="claim X-01: "):
        run(text)


def test_a_check_gives_true_or_false_and_nothing_else():
    with pytest.raises(UserError, match=r"claim X-01: .*not true or false"):
        run("T('a')")


def test_nothing_reaches_the_interpreter():
    def spy(key):
        import sys

        frame = sys._getframe(1)
        assert "evaluation" in frame.f_code.co_filename
        return Estimate.exact(1.0)

    assert word("T('a') == 1", {"T": spy}) is True


def failing(outcome):
    return outcome.named(outcome.failing)


def test_a_failure_says_where():
    outcome = run("all(T(k) < x for k in ('a', 'b') for x in (1.55, 3))")
    assert failing(outcome) == ["b, x 1.55"]
    assert [case.keys for case in run("T('a') <= 1.5 and T('b') <= 1").failing] == [()]
    assert not run("T('a') <= 1.5").failing


def test_a_case_holds_only_where_all_its_parts_do():
    outcome = run("all(T(k) > 0.5 and T(k) < 1.55 and T(k) > 0.1 for k in ('a', 'b'))")
    assert [len(case.parts) for case in outcome.cases] == [3, 3]
    assert (outcome.holding(), failing(outcome)) == ("holds for a", ["b"])
    assert outcome.failing[0].worst.text == "T(k) < 1.55"


def test_a_case_with_a_missing_part_holds_nowhere_and_fails_only_by_what_surely_fails():
    half = run("all(T(k) > 0.1 and T('c') > x for k in ('a', 'b') for x in (0,))", PARTLY)
    assert (half.judged, half.answers, half.holding()) == ((), False, "")
    assert not any(case.holds for case in half.cases)
    fails = run("all(T(k) > 9 and T('c') > 0 for k in ('a', 'b'))", PARTLY)
    assert fails.answers
    assert failing(fails) == ["a", "b"]


def test_the_cases_at_hand_are_judged_and_the_rest_is_named():
    outcome = run("all(T(k) > 0.1 for k in ('a', 'c', 'b'))", PARTLY)
    assert outcome.answers
    assert outcome.truth.surely
    assert (outcome.holding(), outcome.lacking()) == ("holds for a, b", "not at hand: c (c is missing)")


def test_what_stands_outside_all_loops_cannot_be_left_out():
    assert not run("T('c') > 0 and all(T(k) > 0.1 for k in ('a', 'b'))", PARTLY).answers
    assert run("T('c') > 0 and all(T(k) > 9 for k in ('a', 'b'))", PARTLY).answers


def test_the_deciding_case_is_the_one_with_the_worst_margin_among_those_that_decide():
    outcome = run("all(T(k) <= n for k in ('a', 'b') for n in (1, 1.5, 9))")
    deciding = outcome.deciding
    assert dict(deciding.bound) == {"k": "b", "n": 1}
    assert (deciding.margin.relation, deciding.margin.needed.value, deciding.margin.found.value) == ("at most", 1, 2)
    assert deciding.margin.distance == Estimate(-1.0, -1.3999999999999999, -0.6000000000000001)
    assert run("all(T(k) <= 9 for k in ('a', 'b'))").deciding.margin.found.value == 2
    assert run("T('a') <= 9 and T('a') <= 1").deciding.margin.needed.value == 1
    # the first lies farther on the wrong side, but may hold; the second surely fails
    assert run("T('a') <= 0.6 and T('b') <= 1.55").deciding.margin.needed.value == 1.55


def test_a_plain_number_is_what_was_needed_on_either_side():
    for text in ("T('a') >= 1", "1 <= T('a')"):
        margin = run(text).deciding.margin
        assert (margin.relation, margin.needed.value, margin.found.value) == ("at least", 1, 1)


def known(key):
    if key in ("c", "d"):
        raise NumberMissingError(f"{key} is missing", "not run: data not here" if key == "d" else "")
    return NUMBERS[key]


PARTLY = {
    "T": known,
    "D": lambda: [({"set": "a", "p": True}, Estimate.exact(1.5)), ({"set": "c", "p": True}, MissingNumber(MISSING))],
}
MISSING = NumberMissingError("c is missing", "not run: data not here")


def others(text):
    outcome = run(text, PARTLY)
    assert outcome.absent
    return "; ".join(filter(None, (outcome.holding(), outcome.lacking())))


@pytest.mark.parametrize("keys", ["('a', 'c')", "('c', 'a')"])
def test_a_false_element_is_known_whatever_is_missing(keys):
    outcome = run(f"all(T(k) > 1.55 for k in {keys})", PARTLY)
    assert (outcome.truth.possibly, failing(outcome)) == (False, ["a"])
    assert outcome.lacking() == "not at hand: c (c is missing)"


def test_the_cases_that_could_be_made_are_named_beside_the_others():
    assert others("all(T(k) >= 0.1 for k in ('d', 'a', 'b'))") == "holds for a, b; not at hand: d (data not here)"
    assert others("all(T(k) >= 0.1 for k in ('a', 'c', 'd'))") == (
        "holds for a; not at hand: c (c is missing); not at hand: d (data not here)"
    )
    assert others("all(T(k) >= x for k in ('a', 'd') for x in (0, 0.1))") == (
        "holds for a (x 0), a (x 0.1); not at hand: d (x 0), d (x 0.1) (data not here)"
    )


def test_a_missing_number_in_a_list_of_differences_is_a_case_like_others():
    assert others("all(x > 0 for d, x in D())") == "holds for a; not at hand: c (data not here)"
    assert others("all(x > 0 for _, x in D())").startswith("holds for a; not at hand: c ")
    assert others("max(x for d, x in D()) > 0") == "data not here"


def test_another_part_that_fails_is_known_too():
    assert [case.keys for case in run("all(T(k) >= 0.1 for k in ('a', 'c')) and T('a') >= 2", PARTLY).failing] == [()]
    assert others("T('c') == 1 and T('a') >= 0") == "c is missing"


def test_a_loop_whose_list_is_missing_has_no_cases():
    assert others("all(x > 0 for k in ('c', 'a') for x in (T(k), 1))") == "c is missing"


@pytest.mark.parametrize(
    "use",
    [
        "x + 1 > 0",
        "1 - x > 0",
        "abs(x) < 1",
        "-x < 1",
        "x == 1",
        "x != 1",
        "x in (1, 2)",
        "(x, 1) == (1, 1)",
        "{x} == {1}",
        "not x",
        "sum([x]) > 1",
        "mean([x]) > 1",
        "share([x]) > 1",
        "min([x, 1]) == 1",
        "T('a') - x > 1",
    ],
)
def test_no_use_of_a_missing_number_goes_unnoticed(use):
    outcome = run(use, {"x": MissingNumber(MISSING), **QUESTIONS})
    assert [part.missing for part in outcome.parts] == [MISSING]
