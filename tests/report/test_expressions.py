import pytest

from leaklab.records.errors import UserError
from leaklab.report.evidence import UntestableError
from leaklab.report.expressions import Check

LANGUAGE = {"T": lambda key: {"a": 1.0, "b": 2.0}[key], "E_GRID": (1, 2, 5)}


def run(text, language=LANGUAGE):
    return Check("X-01", text, language).run(language)


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


def test_a_false_element_decides_before_a_missing_number():
    def known(key):
        if key == "c":
            raise UntestableError("c is missing")
        return 1.0

    language = {"T": known}
    assert run("all(T(k) > 1 for k in ('a', 'c'))", language) == (False, ["k='a'"])
    with pytest.raises(UntestableError, match="c is missing"):
        run("all(T(k) == 1 for k in ('a', 'c'))", language)
