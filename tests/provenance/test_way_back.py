"""An audit that fails because of an edit says how to come back to one that passes."""

import subprocess

import pytest

from leaklab.provenance.audit import UNCOMMITTED, Audit, way_back

ITEM, PLUGIN = "config/items/lrp/figure2.yaml", "src/leaklab/defenses/shrinking.py"
BREAK = f"{ITEM}: not the file that results/small/lrp/figure2.run.json was made from"
STALE = f"results/runs/attack/x/run.json: {UNCOMMITTED}"


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """A checkout after the walk-through of own-defense.md: an item was edited, a plug-in was added."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    for name in (ITEM, PLUGIN):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / ITEM).write_text("defense: [none]")
    for words in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "-m", "one")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / ITEM).write_text("defense: [none, shrinking]")
    (tmp_path / PLUGIN).write_text("")
    return tmp_path


def test_after_the_walk_through_one_sentence_leads_back(edited):
    line = way_back(Audit(breaks=[BREAK], stale=[STALE]))
    assert line.startswith("back to an audit that passes: undo what is edited here (")
    assert ITEM in line
    assert PLUGIN in line
    assert "`git stash --include-untracked -- config src`" in line
    assert "results/runs/attack/x/run.json" in line
    assert "\n" not in line
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "stash", "--include-untracked", "--quiet", "--",
                    "config", "src"], cwd=edited, check=True)  # fmt: skip
    assert (edited / ITEM).read_text() == "defense: [none]"
    assert not (edited / PLUGIN).exists()
    again = way_back(Audit(stale=[STALE]))
    assert "undo" not in again
    assert "take away what was made meanwhile (results/runs/attack/x/run.json): " in again


def test_where_nothing_is_wrong_or_nothing_was_edited_nothing_is_said(edited):
    assert way_back(Audit()) == ""
    subprocess.run(["git", "stash", "--quiet", "--include-untracked"], cwd=edited, check=True, env={
        "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t",
        "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert way_back(Audit(breaks=[BREAK])) == ""
