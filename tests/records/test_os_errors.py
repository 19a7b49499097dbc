"""What the system refuses is told in one line with the path and what to do."""

import errno
import os
import subprocess

import pytest

from leaklab.records.os_errors import line_of

PATH = "results/small/lrp/table1.csv"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, f"{PATH} may not be read or written"),
        (errno.EPERM, f"{PATH} may not be read or written"),
        (errno.ENOSPC, f"the disk is full ({PATH}): free some space"),
        (errno.EDQUOT, f"the disk is full ({PATH}): free some space"),
        (errno.EROFS, f"{PATH} lies on a file system that is mounted read-only: "),
        (errno.ENOENT, f"{PATH} is not there: "),
        (errno.EISDIR, f"{PATH} is a folder, and no file: name a file"),
        (errno.ENOTDIR, f"{PATH}: a file lies where a folder is needed: "),
        (errno.EIO, f"{PATH}: Input/output error"),
    ],
)
def test_each_refusal_of_the_system_names_the_path(number, said):
    line = line_of(OSError(number, os.strerror(number), PATH))
    assert line.startswith(said)
    assert "\n" not in line


def test_what_belongs_to_somebody_else_is_said_to(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.write_text("")
    closed = PermissionError(errno.EACCES, "Permission denied", str(mine / "not here"))
    assert "it belongs" not in line_of(closed)
    monkeypatch.setattr(os, "geteuid", lambda: mine.stat().st_uid + 12345)
    assert " (it belongs to " in line_of(closed)


@pytest.mark.parametrize(
    "error",
    [
        OSError("the words\nof a library"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.ENAMETOOLONG, "File name too long", "a\n" * 5000),
        OSError(errno.EACCES, "Permission denied", b"M\xfcller"),
        OSError(errno.EBADF, "Bad file descriptor", 3),
        OSError(),
    ],
)
def test_without_a_path_or_with_an_odd_one_it_is_one_line_all_the_same(error):
    line = line_of(error)
    assert line
    assert "\n" not in line
    assert len(line) < 400


def test_a_folder_that_was_deleted_under_the_user_is_said_to(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "cd into another" in line_of(FileNotFoundError(errno.ENOENT, "No such file or directory", "x"))
    subprocess.run(["true"], cwd=tmp_path, check=True)
