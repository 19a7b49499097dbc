"""What was made again and came out the same keeps the record that was committed: nothing new changes no file."""

import json
import subprocess

import pytest

from leaklab.provenance.published import keep_committed

RECORD = {"rule": "judge_claims", "spec": {"scale": "small"}, "code": "ab", "device": "cpu", "facts": {"claims": 2},
          "inputs": {"a": "1"}, "outputs": {"b": "2"}, "started": "2026-01-01T00:00:00+00:00", "wall_seconds": 2.0,
          "commit": None}  # fmt: skip
FILE = "results/small/judgement.run.json"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A checkout with a committed record; return what writes it anew with other fields."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    def put(**other):
        (tmp_path / FILE).write_text(json.dumps(RECORD | other), encoding="utf-8")

    (tmp_path / FILE).parent.mkdir(parents=True)
    put()
    return put


def committed(folder):
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    for words in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "-m", "one")):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_another_time_and_commit_alone_are_nothing_new(write, tmp_path):
    committed(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    write(started="2027-01-01T00:00:00+00:00", wall_seconds=9.0, commit="c" * 40)
    (line,) = keep_committed("small")
    assert line.startswith(f"{FILE}: as it was committed")
    assert (tmp_path / FILE).read_bytes() == before
    assert list(keep_committed("small")) == []


@pytest.mark.parametrize("other", [{"code": "cd"}, {"inputs": {"a": "3"}}, {"outputs": {}}, {"facts": {"claims": 3}}])
def test_a_record_of_something_else_stays(write, tmp_path, other):
    committed(tmp_path)
    write(wall_seconds=9.0, **other)
    assert list(keep_committed("small")) == []
    assert json.loads((tmp_path / FILE).read_text())["wall_seconds"] == 9.0


def test_what_was_never_committed_stays(write, tmp_path):
    assert list(keep_committed("small")) == []
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (line,) = keep_committed("small")
    assert line.startswith("records stay as they are made now: git: ")
