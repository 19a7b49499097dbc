"""What is published, against a commit: a forgery whose records were changed with it is found, and nothing else."""

import subprocess

import pytest

from leaklab.provenance.published import compare
from leaklab.records.errors import UserError

TABLE, FIGURE, SPACED = "results/small/lrp/table1.csv", "figures/small/lrp/table1.png", "results/small/a b é.csv"


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A checkout with three published files and ignored runs; return a function that calls git in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    def run(*arguments):
        who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
        done = subprocess.run(["git", *who, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    for name in (TABLE, FIGURE, SPACED, "results/runs/x/run.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode() + b"\r\n")
    (tmp_path / ".gitignore").write_text("/results/runs/\n")
    (tmp_path / "code.py").write_text("x = 1\n")
    run("init", "--quiet")
    run("add", "--all")
    run("commit", "--quiet", "--message", "one")
    return run


def test_an_untouched_checkout_is_what_the_commit_has_whatever_else_changed(git, tmp_path):
    first = git("rev-parse", "HEAD")
    (tmp_path / "code.py").write_text("x = 2\n")
    (tmp_path / "results/runs/x/run.json").unlink()
    git("commit", "--quiet", "--all", "--message", "two")
    for name in ("HEAD", "HEAD~1", first, first[:8]):
        found = compare(name)
        assert (found.files, found.differences) == (3, ())
    assert compare("HEAD~1").commit == first


def test_what_is_changed_missing_or_new_is_named(git, tmp_path):
    name = git("rev-parse", "HEAD")[:12]
    (tmp_path / TABLE).write_text("better")
    (tmp_path / SPACED).unlink()
    (tmp_path / "figures/small/lrp/new.png").write_text("new")
    expected = (
        f"figures/small/lrp/new.png: not in {name}",
        f"{SPACED}: {name} has it, and it is not here",
        f"{TABLE}: not what {name} has",
    )
    assert compare("HEAD").differences == expected
    # nor does it help to commit the forgery, as long as an older commit is named
    git("add", "--all")
    git("commit", "--quiet", "--message", "forged")
    assert compare("HEAD").differences == ()
    assert compare("HEAD~1").differences == expected


def test_a_line_end_counts_whatever_git_is_told_of_them(git, tmp_path):
    git("config", "core.autocrlf", "input")
    (tmp_path / TABLE).write_bytes(TABLE.encode() + b"\n")
    assert [line.split(":")[0] for line in compare("HEAD").differences] == [TABLE]


def test_a_link_is_no_published_file(git, tmp_path):
    (tmp_path / "elsewhere.csv").write_bytes((tmp_path / TABLE).read_bytes())
    (tmp_path / TABLE).unlink()
    (tmp_path / TABLE).symlink_to(tmp_path / "elsewhere.csv")
    assert [line.split(":")[0] for line in compare("HEAD").differences] == [TABLE]


@pytest.mark.parametrize("name", ["v9.9", "", "--all", "HEAD:code.py"])
def test_a_commit_that_is_not_there_is_refused(git, name):
    with pytest.raises(UserError, match=f"no commit '{name}' here"):
        compare(name)


def test_outside_of_a_checkout_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UserError, match=r"no checkout of git.*run it in a checkout"):
        compare("HEAD")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="git is not to be found here: install it"):
        compare("HEAD")


def test_a_failure_of_git_is_not_told_as_a_missing_commit(git, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UserError, match=r"belongs to .*git config --global --add safe\.directory") as refused:
        compare("HEAD")
    assert "no commit" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)
