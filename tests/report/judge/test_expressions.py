import pytest

from leaklab.records.errors import UserError
from leaklab.report.judge.expressions import Check
from leaklab.report.numbers.missing import MissingNumber, UntestableError

LANGUAGE = {"T": lambda key: {"a": 1.0, "b": 2.0}[key], "E_GRID": (1, 2, 5)}


def run(text, language=LANGUAGE):
    outcome = Check("X-01", text, language).run(language)
    return outcome.holds, list(outcome.failures)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T('a') < T('b')", True),
        ("T('a') < T('b') < 2", False),
        ("all(T(k) > 0 for k in ('a', 'b'))", True),
        ("any(T(k) > 1 for k in ['a', 'b']) and not T('a') > T('b')", True),
        ("0 < [e for e in E_GRID].index(max(e for e in E_GRID)) <= len(E_GRID) - 1", True),
        ("min(range(3), key=E_GRID.__getitem__) == 0", True),
        ("sorted({e for e in E_GRID})[-2:] == [2, 5]", True),
        ("(1 if T('a') == 1 else 0) == 1", True),
        ("-T('a') == -1 and 3 // 2 == 1 and 'x' in ('x',) and 'y' not in ('x',)", True),
    ],
)
def test_what_a_check_can_say(text, expected):
    assert run(text)[0] is expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__",
        "T.__globals__",
        "T.__self__.results",
        "'{0.__class__}'.format(T)",
        "f'{T}'",
        "(lambda: 1)()",
        "open('x')",
        "eval('1')",
        "getattr(T, 'x')",
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


def test_a_check_gives_true_or_false_and_nothing_else():
    with pytest.raises(UserError, match=r"claim X-01: .*not true or false"):
        run("T('a')")


def test_values_that_do_not_go_together_name_the_claim():
    with pytest.raises(UserError, match="claim X-01: "):
        run("T('a') < 'text'")


def test_no_builtin_is_reachable_at_run_time():
    check = Check("X-01", "T('a') == 1", LANGUAGE)
    seen = {}

    def spy(key):
        import sys

        seen.update(sys._getframe(1).f_globals)
        return 1.0

    check.run({"T": spy})
    assert seen["__builtins__"] == {}


def test_a_failure_says_where():
    assert run("all(T(k) < n for k in ('a', 'b') for n in (2, 3))") == (False, ["k='b', n=2"])
    assert run("T('a') == 1 and T('b') <= 1") == (False, ["T('b') <= 1 (with 2, 1)"])


def known(key):
    if key in ("c", "d"):
        raise UntestableError(f"{key} is missing", "not run: data not here" if key == "d" else "")
    return {"a": 1.0, "b": 2.0}[key]


PARTLY = {"T": known, "D": lambda: [({"set": "a", "p": True}, 1.5), ({"set": "c", "p": True}, MissingNumber(MISSING))]}
MISSING = UntestableError("c is missing", "not run: data not here")


def untestable(text):
    with pytest.raises(UntestableError) as missing:
        run(text, PARTLY)
    return str(missing.value)


@pytest.mark.parametrize("keys", ["('a', 'c')", "('c', 'a')"])
def test_a_false_element_decides_whatever_is_missing(keys):
    outcome = Check("X-01", f"all(T(k) > 1 for k in {keys})", PARTLY).run(PARTLY)
    assert (outcome.holds, outcome.failures) == (False, ("a",))
    assert outcome.others == "not testable for c: c is missing"


def test_the_cases_that_could_be_tested_are_named_beside_the_others():
    assert untestable("all(T(k) >= 1 for k in ('d', 'a', 'b'))") == (
        "holds for a, b; not testable for d: not run: data not here"
    )
    assert untestable("all(T(k) >= 1 for k in ('a', 'c', 'd'))") == (
        "holds for a; not testable for c: c is missing; not testable for d: not run: data not here"
    )
    assert untestable("all(T(k) >= n for k in ('a', 'd') for n in (0, 1))") == (
        "holds for k='a', n=0; k='a', n=1; not testable for k='d', n=0; k='d', n=1: not run: data not here"
    )


def test_a_missing_number_in_a_list_of_differences_is_a_case_like_others():
    assert untestable("all(x > 0 for d, x in D())") == (
        "holds for set a, x=1.5; not testable for set c: not run: data not here"
    )
    assert untestable("all(x > 0 for _, x in D())").startswith("holds for set a, x=1.5; not testable for set c: ")
    assert untestable("max(x for d, x in D()) > 0") == "c is missing: not run: data not here"


def test_another_part_that_fails_decides_too():
    assert run("all(T(k) >= 1 for k in ('a', 'c')) and T('a') == 2", PARTLY) == (False, ["T('a') == 2 (with 1, 2)"])
    assert untestable("T('c') == 1 and T('a') == 1") == "c is missing"


def test_a_loop_whose_list_is_missing_has_no_cases():
    assert untestable("all(x > 0 for k in ('c', 'a') for x in (T(k), 1))") == "c is missing"


@pytest.mark.parametrize(
    "use",
    [
        "x + 1 > 0",
        "1 - x > 0",
        "abs(x) < 1",
        "-x < 1",
        "x == 1",
        "x != 1",
        "bool(x)",
        "float(x) > 1",
        "round(x) == 1",
        "not x",
        "sum([x]) > 1",
        "x in (1, 2)",
        "{x} == {1}",
        "min([x, 1]) == 1",
    ],
)
def test_no_use_of_a_missing_number_goes_unnoticed(use):
    language = {"x": MissingNumber(MISSING)}
    with pytest.raises(UntestableError, match="c is missing: not run"):
        Check("X-01", use, language).run(language)
