"""The hunt for mutants: what is edited and what never is, and that a kill, a gap and a broken test are told apart."""

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from mutants.__main__ import SEED, TABLE, confirmed, hunt, keep, known, with_older
from mutants.bench import make_bench
from mutants.edits import edits_of
from mutants.page import Reason, last_line, page, reasons, unexplained
from mutants.rooms import TURNS, drawn, finders_of

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A room."""

from leaklab.records.errors import UserError

Limits = dict[str, tuple[int, int]]


def clipped(x: float, bound: float = 2.0) -> float:
    """Return x, at most the bound."""
    if bound < 0 and not x:
        raise UserError(f"bound is {bound + 1}")
    return min(x, bound) - 3 * abs(x)
'''


def after(source, kind):
    return {edit.difference(source)[1] for edit in edits_of(source) if edit.kind == kind}


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        (
            "y = a < b <= c",
            "comparison flipped",
            {"y = a <= b <= c", "y = a > b <= c", "y = a < b < c", "y = a < b >= c"},
        ),
        ("y = max(a, b)", "comparison flipped", {"y = min(a, b)"}),
        ("y = not a", "comparison flipped", {"y = a"}),
        ("y = 2 * (a - 1)", "off by one", {"y = 3 * (a - 1)", "y = 1 * (a - 1)", "y = 2 * (a - 2)", "y = 2 * (a - 0)"}),
        ("y = a[:n]", "off by one", {"y = a[:(n + 1)]"}),
        ("y = a / b", "sign", {"y = a * b"}),
        ("y = -a", "sign", {"y = a"}),
        ("y = 'a' + b", "sign", set()),
        ("y = a * (b + c)", "term dropped", {"y = a", "y = (b + c)", "y = a * (b)", "y = a * (c)"}),
        ("y = a and b", "branch dropped", {"y = a", "y = b"}),
        ("y = a if c else b", "branch dropped", {"y = a", "y = b"}),
        ("y = x.clamp(min=1)", "call dropped", {"y = x"}),
        ("y = f(a, b, c=1)", "arguments swapped", {"y = f(b, a, c=1)"}),
        ("y = f(a, b=0.5, c=True)", "constant", {"y = f(a, b=1.0, c=True)", "y = f(a, b=0.5, c=False)"}),
        ("y = zip(a, b, strict=True)", "constant", set()),
    ],
)
def test_an_edit_changes_one_thing_of_its_kind(source, kind, expected):
    assert after(source, kind) == expected


def test_types_messages_and_words_are_left_alone():
    found = {edit.difference(SOURCE) for edit in edits_of(SOURCE)}
    lines = {before for before, _ in found}
    assert lines == {
        "def clipped(x: float, bound: float = 2.0) -> float:",
        "if bound < 0 and not x:",
        "return min(x, bound) - 3 * abs(x)",
    }
    assert ("if bound < 0 and not x:", "if False:") in found


@pytest.mark.parametrize("name", ["defenses/outpost.py", "attacks/adaptive/outpost.py", "report/judge/evidence.py"])
def test_every_edit_of_a_module_is_python(name):
    source = (ROOT / "src/leaklab" / name).read_text("utf-8")
    found = edits_of(source)
    assert len(found) > 50
    for edit in found:
        ast.parse(edit.applied(source))
        assert edit.applied(source).splitlines()[: edit.line - 1] == source.splitlines()[: edit.line - 1]


DEFENSE, TEST = Path("src/leaklab/defenses/cut.py"), Path("tests/defenses/test_cut.py")
CODE = "def cut(x):\n    return x * 2 if x > 5 else x\n"
TESTS = """import sys
from leaklab.defenses.cut import cut

def test_large_values():
    assert cut(6) == 12

def test_broken():
    assert cut(6) == 12 and "checkout" not in sys.modules
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one defense, whose small values no test looks at."""
    folder = tmp_path / "checkout"
    for path, text in ((DEFENSE, CODE), (TEST, TESTS), (Path("src/leaklab/__init__.py"), "")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / ".gitignore").write_text("made\n")
    (folder / "made").write_text("no part of the copy")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder


@pytest.fixture
def bench(checkout, tmp_path):
    return make_bench(tmp_path / "copy", 60.0, checkout)


def of(bench, text):
    return next(one for one in drawn(bench.folder, 0, 100) if one.after == text)


DOUBLED, DROPPED = "return x * 3 if x > 5 else x", "return (x * 2)"


def test_a_mutant_is_killed_by_a_test_or_survives_and_the_checkout_stays_as_it_is(bench, checkout):
    killed, lives = bench.tried(of(bench, DOUBLED)), bench.tried(of(bench, DROPPED))
    assert (killed.outcome, killed.by) == ("killed", f"{TEST}::test_large_values")
    assert (lives.outcome, lives.by) == ("survived", "1")
    assert (checkout / DEFENSE).read_text() == (bench.folder / DEFENSE).read_text() == CODE
    assert not (bench.folder / "made").exists()


def test_a_kill_is_void_where_the_test_fails_without_the_mutant_too(bench):
    (bench.folder / TEST).write_text(TESTS.replace("cut(6) == 12", "cut(6) == 13"))
    found = [bench.tried(of(bench, DROPPED))]
    assert found[0].outcome == "killed"
    assert confirmed(bench, found)[0].outcome == "void"


def test_tests_that_end_the_interpreter_find_the_mutant_and_endless_ones_say_nothing(bench):
    (bench.folder / TEST).write_text(
        "import os\nfrom leaklab.defenses import cut\n\ndef test_dies():\n    os.abort()\n"
    )
    assert bench.tried(of(bench, DROPPED)).by == "signal 6"
    (bench.folder / TEST).write_text(
        "from leaklab.defenses import cut\n\ndef test_long():\n    while True:\n        pass\n"
    )
    assert replace(bench, limit=1.0).tried(of(bench, DROPPED)).outcome == "time limit"


def test_a_hunt_that_was_stopped_goes_on_and_asks_again_only_where_tests_changed(bench, tmp_path, monkeypatch):
    mutants, table, never = [of(bench, DOUBLED), of(bench, DROPPED)], tmp_path / "mutants.csv", float("inf")
    keep(table, next(hunt(bench, mutants, [], never)))
    asked = []
    tried = type(bench).tried

    def counted(self, mutant, first=""):
        asked.append((mutant.after, first))
        return tried(self, mutant, first)

    monkeypatch.setattr(type(bench), "tried", counted)
    *_, found = hunt(bench, mutants, known(table), never)
    assert asked == [(DROPPED, "")]
    keep(table, found)
    (bench.folder / TEST).write_text(f"{TESTS}\ndef test_small_values():\n    assert cut(1) == 1\n")
    *_, found = hunt(bench, mutants, known(table), never)
    assert asked[1:] == [(DOUBLED, f"{TEST}::test_large_values"), (DROPPED, "")]
    assert [trial.outcome for trial in found] == ["killed", "killed"]
    assert with_older(found[:1], known(table)) == [found[0], known(table)[1]]
    assert list(hunt(bench, mutants, [], 0.0)) == []


def test_the_draw_is_that_of_its_seed_and_lines_elsewhere_do_not_move_it(bench):
    first, again, other = ([one.key for one in drawn(bench.folder, seed, 6)] for seed in (1, 1, 2))
    assert first == again != other
    (bench.folder / DEFENSE).write_text(f'"""A line more."""\n{CODE}')
    assert [one.key for one in drawn(bench.folder, 1, 6)] == first


def test_every_room_takes_part_and_every_mutant_has_tests():
    found = drawn(ROOT, SEED, 10)
    assert [mutant.room for mutant in found] == [*TURNS, *TURNS]
    assert len({mutant.key for mutant in found}) == 10
    for mutant in found:
        tests = finders_of(ROOT, mutant)
        assert tests
        assert all((ROOT / path).is_file() for path in tests)


def test_the_last_line_counts_gaps_equivalents_and_what_nobody_explained(bench):
    lives = bench.tried(of(bench, DROPPED))
    killed = replace(lives, outcome="killed", after="x")
    alike = replace(lives, after="y")
    said = {alike.key: Reason("equivalent", "nobody can tell"), killed.key: Reason("gap", "was one")}
    assert last_line([lives, killed, alike], said) == (
        "3 mutants: 1 killed, 2 survived (1 equivalent, 0 gaps, 1 unexplained)"
    )
    assert [unexplained(trial, said) for trial in (lives, killed, alike)] == [True, False, False]
    text = page([lives, killed, alike], said, 0)
    assert "*equivalent*: nobody can tell" in text
    assert f"- {lives.before}\n+ {lives.after}" in text


def test_the_published_page_is_made_of_the_published_table_and_explains_every_survivor():
    found, said = known(TABLE), reasons()
    assert len(found) >= 40
    assert not [trial.key for trial in found if unexplained(trial, said)]
    assert TABLE.with_suffix(".md").read_text("utf-8") == page(found, said, SEED)
    assert set(said) == {trial.key for trial in found if trial.outcome == "survived"}
