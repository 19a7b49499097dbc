"""Calls that work in one folder at a time keep their locks, and end without a traceback."""

import os
import shutil

import pytest
from snakemake.persistence.file import FilePersistence

from leaklab.planning.locks import KIND, MODULE, mend


@pytest.fixture
def call(tmp_path):
    """A function that gives the locks of another call in the folder, as Snakemake's own class keeps them, mended."""
    kind = type("Mended", (FilePersistence,), {})
    mend(kind)

    def begin(of=kind):
        made = object.__new__(of)
        made._lockdir, made._lockfile = str(tmp_path / "locks"), {}
        (tmp_path / "locks").mkdir(exist_ok=True)
        return made

    return begin


def test_a_call_that_ends_leaves_the_locks_of_others(call, tmp_path):
    one, other = call(), call()
    one._write_locks("output", ["a.csv"])
    other._write_locks("output", ["b.csv"])
    one._delete_locks()
    assert list(other._read_locks()) == [("output", "b.csv")]
    other._delete_locks()
    assert not (tmp_path / "locks").exists()


def test_a_call_locks_though_another_took_the_folder_away(call):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    one._delete_locks()
    other._write_locks("input", ["b.csv"])
    assert list(other._read_locks()) == [("input", "b.csv")]


def test_a_lock_that_goes_while_it_is_read_is_none(call, monkeypatch):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    real, gone = os.path.isdir, []

    def is_folder(path):
        if not gone:
            gone.append(path)
            one._delete_locks()
        return real(path)

    monkeypatch.setattr("snakemake.persistence.file.os.path.isdir", is_folder)
    assert list(other._read_locks()) == []
    assert gone


def test_unlock_takes_all_locks_away(call, tmp_path):
    call()._write_locks("input", ["a.csv"])
    call().cleanup_locks()
    assert not (tmp_path / "locks").exists()


def test_a_call_that_had_nothing_to_lock_takes_none_away(call):
    one, other = call(), call()
    one._write_locks("input", ["a.csv"])
    other._write_locks("input", [])
    other._delete_locks()
    assert list(one._read_locks()) == [("input", "a.csv")]


def test_snakemake_itself_takes_the_locks_of_others(call):
    """If this fails, Snakemake has mended it: delete ``planning/locks.py``."""
    assert FilePersistence.__module__ == MODULE
    assert FilePersistence.__name__ == KIND
    one, other = call(FilePersistence), call(FilePersistence)
    for number, locks in enumerate((one, other)):
        locks._write_locks("output", [f"{number}.csv"])
    one._delete_locks()
    assert list(other._read_locks()) == []
    shutil.rmtree(other._lockdir, ignore_errors=True)
    with pytest.raises(FileNotFoundError):
        other._write_locks("input", ["b.csv"])
