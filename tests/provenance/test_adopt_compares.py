"""What counts as the same when a run is repeated to be adopted."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from leaklab.provenance import repeat
from leaklab.provenance.repeat import differences
from leaklab.records.files import sha256, write_arrays, write_json

ARRAYS = {"value": np.array([1.0, np.nan, -0.0]), "place": np.array([3, 4])}
PATH = "figures/small/p/i.npz"


@pytest.fixture
def repeated(tmp_path, monkeypatch):
    """Return what is said of a repeated run whose npz has these arrays, in an archive with other headers."""
    monkeypatch.chdir(tmp_path)

    def of(arrays, path=PATH, recorded=None):
        old, new = tmp_path / path, tmp_path / "scratch" / path
        for place, content in ((old, ARRAYS), (new, arrays)):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(place, content)
        with zipfile.ZipFile(new, "a") as archive:
            archive.comment = b"another patch version of Python"
        run = SimpleNamespace(
            entry=SimpleNamespace(outputs={path: recorded or sha256(old)}, path="figures/small/p/i.run.json"), timed=()
        )
        assert sha256(old) != sha256(new)
        return list(differences(run, tmp_path / "scratch"))

    return of


def test_arrays_in_another_archive_are_the_same(repeated):
    assert repeated(ARRAYS) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"value": np.array([1.0, np.nan, 0.0])},
        {"value": np.array([1.0, np.nan, -0.0], dtype=np.float32)},
        {"place": np.array([[3, 4]])},
        {"more": np.array([1])},
    ],
)
def test_other_arrays_are_not(repeated, changed):
    (said,) = repeated({**ARRAYS, **changed})
    assert said.endswith("is not the same any more")


def test_other_archives_and_a_file_that_is_not_the_recorded_one_are_not(repeated):
    assert len(repeated(ARRAYS, "figures/small/p/i.zip")) == 1
    assert len(repeated(ARRAYS, recorded="0" * 64)) == 1


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Return a run that a call repeated, and may have left in the scratch folder when it was stopped."""
    monkeypatch.chdir(tmp_path)
    entry = SimpleNamespace(outputs={"results/a/out": ""}, path=Path("results/a/run.json"), inputs={"data": "hash"})
    run = SimpleNamespace(entry=entry, made=SimpleNamespace(code="new"))

    def left(code="new", inputs=entry.inputs, outputs=("out",)):
        folder = repeat.SCRATCH / "results/a"
        folder.mkdir(parents=True)
        write_json(folder / "run.json", {"code": code, "inputs": inputs})
        for name in outputs:
            (folder / name).write_text(code)
        repeat._keep([run])
        repeat.shutil.rmtree(repeat.SCRATCH)
        repeat._bring_back([run])
        return (repeat.SCRATCH / "results/a/out").is_file()

    return left


def test_what_was_repeated_is_kept_for_the_next_call(stopped):
    assert stopped()
    assert (repeat.SCRATCH / "results/a/out").read_text() == "new"


@pytest.mark.parametrize("other", [{"code": "old"}, {"inputs": {"data": "another"}}, {"outputs": ()}])
def test_what_other_code_or_other_inputs_made_or_is_not_whole_is_not(stopped, other):
    assert not stopped(**other)


def test_the_original_in_the_scratch_folder_does_not_replace_what_was_repeated(stopped):
    assert stopped()
    repeat.shutil.rmtree(repeat.SCRATCH)
    assert stopped(code="old")
    assert (repeat.SCRATCH / "results/a/out").read_text() == "new"


def test_what_is_repeated_lies_in_no_folder_with_what_is_made_from_it():
    """It would be newer than that, and the chain between them would be made anew."""
    rules = ("make_figure", "run_attack", "judge_claims", "fetch_dataset", "publish_runs", "make_table", "fetch_text")
    runs = [SimpleNamespace(entry=SimpleNamespace(rule=rule)) for rule in (*rules, "capture_updates")]
    assert [[one.entry.rule for one in batch] for batch in repeat.batches(runs)] == [
        ["fetch_dataset", "fetch_text"],
        ["run_attack", "capture_updates"],
        ["make_table"],
        ["make_figure"],
        ["judge_claims"],
        ["publish_runs"],
    ]


def test_a_run_is_repeated_on_the_road_that_its_record_names(monkeypatch):
    """Compiled steps round otherwise than those of torch; what is unsaid was made before there were any.

    It is asked for by its record: a rule names that one, and not all other files that it writes.
    """
    called = []

    def run(command, env, **_):
        called.append((command[command.index("--") + 1 :], env.get(repeat.COMPILER)))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(repeat.subprocess, "run", run)
    monkeypatch.delenv(repeat.COMPILER, raising=False)
    facts = {"a": {repeat.FACT: True}, "b": {repeat.FACT: False}, "c": {}}
    runs = [
        SimpleNamespace(entry=SimpleNamespace(outputs={"a.png": ""}, path=Path(name), content={"facts": own}))
        for name, own in facts.items()
    ]
    repeat._run(runs, 1)
    assert called == [(["b", "c"], repeat.OFF), (["a"], None)]
