"""What the lock of code accepts, what Snakemake sees of it, and that a changed line is noticed."""

import json
from pathlib import Path

import pytest

from leaklab.planning.code_lock import FILE, CodeLock, Line, witnessed
from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger

KEY, OTHER = "run_attack attacks/dlg", "run_attack attacks/idlg"
RECORD = "results/runs/attack/x/run.json"
NOTHING = Ledger(Path(), ())


def entry(code="a", made="1", read="1", commit="c"):
    content = {
        "rule": "run_attack",
        "code": code,
        "commit": commit,
        "spec": {},
        "inputs": {"data/x": read},
        "outputs": {"results/x": made},
    }
    return Entry(Path(RECORD), content)


SHOWN = {RECORD: witnessed(entry())}


def adopted(*steps):
    """Return a lock after some adoptions: (key, older digests, digest here)."""
    lock = CodeLock()
    for key, older, here in steps:
        lock = lock.with_adopted(key, tuple(older), here, SHOWN)
    return lock


def faults(lock, *entries):
    return list(lock.faults(Ledger(Path(), entries)))


def test_code_without_a_line_is_a_generation_of_its_own():
    assert CodeLock().generation(KEY, "a") == "a"
    assert CodeLock().accepts(KEY, "a", "a")
    assert not CodeLock().accepts(KEY, "a", "b")


def test_adopted_again_code_keeps_its_generation():
    lock = adopted((KEY, "a", "b"), (KEY, "b", "c"))
    assert {lock.generation(KEY, digest) for digest in "abc"} == {"a"}
    assert lock.accepts(KEY, "a", "c")
    assert lock.accepts(KEY, "c", "a")
    assert not lock.accepts(KEY, "a", "d")
    assert not lock.accepts(KEY, "d", "a")
    assert lock.generation(KEY, "d") == "d"


def test_records_of_several_older_codes_stand_for_one():
    lock = adopted((KEY, "ab", "c"))
    assert lock.accepts(KEY, "a", "c")
    assert lock.accepts(KEY, "b", "c")


def test_code_with_other_plugins_is_not_adopted_along():
    lock = adopted((KEY, "a", "b"))
    assert lock.generation(OTHER, "b") == "b"
    assert not lock.accepts(OTHER, "a", "b")


def test_a_line_about_code_that_no_record_has_any_more_begins_anew():
    """Results were made again by code that does something else; what was accepted before says nothing of it."""
    lock = adopted((KEY, "a", "b"), (KEY, "x", "y"))
    assert lock.lines[KEY].accepted == ("x", "y")
    assert not lock.accepts(KEY, "a", "y")


def test_a_sound_lock_has_no_faults_and_a_line_of_its_own_for_each_rule(tmp_path):
    lock = adopted((KEY, "a", "b"), (OTHER, "a", "c"))
    lock.write(tmp_path)
    assert CodeLock.load(tmp_path) == lock
    assert len((tmp_path / FILE).read_text().splitlines()) == 4
    assert faults(lock, entry()) == []


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"evidence": {}}, "no repeated run shows it"),
        ({"generation": "z"}, "its generation is not among what was accepted"),
        ({"evidence": {RECORD: f"{SHOWN[RECORD][:16]} {'0' * 16}"}}, f"{RECORD} made something else of the same"),
    ],
)
def test_an_edited_line_is_noticed(changed, fault):
    lock = adopted((KEY, "a", "b"))
    edited = CodeLock({KEY: lock.lines[KEY].model_copy(update=changed)})
    assert faults(edited, entry()) == [f"{FILE}: {KEY}: {fault}"]


def test_a_forged_record_contradicts_the_evidence():
    assert faults(adopted((KEY, "a", "b")), entry(made="2")) == [
        f"{FILE}: {KEY}: {RECORD} made something else of the same"
    ]


@pytest.mark.parametrize("later", [entry(made="2", code="z"), entry(made="2", read="2"), entry(made="2", commit="d")])
def test_a_record_that_was_made_again_or_of_other_inputs_is_no_witness_any_more(later):
    assert faults(adopted((KEY, "a", "b")), later) == []


@pytest.mark.parametrize(
    "content",
    ['{"x": {"generation": 1}}', "[]", '{"x": {"generation": "a", "accepted": ["a"], "evidence": {"r": "1"}}}'],
)
def test_a_damaged_file_is_one_line(tmp_path, content):
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"results/code\.lock: ") as caught:
        CodeLock.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_published_lock_holds_lines_and_no_more():
    text = (Path(__file__).parents[2] / FILE).read_text(encoding="utf-8")
    assert {key: Line.model_validate(line) for key, line in json.loads(text).items()}
