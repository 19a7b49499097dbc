"""Git is asked about the project's folder alone, and a failure of it is told as one."""

import os
import subprocess

import pytest

from leaklab.records import git
from leaklab.records.errors import UserError
from leaklab.records.recorder import git_state


@pytest.fixture
def unpacked(tmp_path, monkeypatch):
    """A project unpacked into a repository of something else; return what makes a checkout of a folder."""
    monkeypatch.delenv(git.CEILINGS, raising=False)

    def commit(folder):
        who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
        subprocess.run(["git", *who, "commit", "--quiet", "--allow-empty", "-m", "one"], cwd=folder, check=True)

    commit(tmp_path)
    (tmp_path / "project (ü)").mkdir()
    monkeypatch.chdir(tmp_path / "project (ü)")
    # what stay_here sets is taken back behind the test
    monkeypatch.setenv(git.CEILINGS, "")
    return commit


def test_the_commit_of_a_repository_around_the_project_is_not_its_own(unpacked, tmp_path):
    assert git_state()["commit"] is not None
    git.stay_here()
    assert git_state() == {"commit": None, "dirty": None}
    with pytest.raises(git.NoCheckoutError):
        git.asked("rev-parse", "HEAD")
    assert git.unknown_commit() == ""
    unpacked(tmp_path / "project (ü)")
    assert len(git_state()["commit"]) == 40
    git.stay_here()
    assert os.environ[git.CEILINGS] == str(tmp_path)


def test_a_checkout_of_another_owner_says_so(unpacked, monkeypatch):
    unpacked(".")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    line = git.unknown_commit()
    assert "git config --global --add safe.directory '" in line
    assert "\n" not in line
    with pytest.raises(UserError, match="belongs to"):
        git.asked("status")


def test_what_git_has_against_a_call_is_told_in_its_words(unpacked, monkeypatch):
    with pytest.raises(UserError, match=r"git: .*no-such-thing"):
        git.asked("no-such-thing")
    monkeypatch.setenv("PATH", "")
    assert git.unknown_commit().startswith("git is not to be found here")
