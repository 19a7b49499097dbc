"""What Snakemake needs of a machine is looked after before it starts, in one line each."""

import getpass
import os
import tempfile

import pytest

from leaklab.planning import room
from leaklab.records.errors import UserError


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A project's folder, a home that may be written, and no names of folders in the environment."""
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (*room.NAMES_OF_TEMPORARY, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_where_all_is_well_nothing_is_said_or_changed(machine):
    before = dict(os.environ)
    assert list(room.make_room()) == []
    assert dict(os.environ) == before
    room.refuse_unfit_folder(machine / "project")


# a file where a folder is needed stops root as well
@pytest.mark.parametrize("name", room.NAMES_OF_TEMPORARY)
def test_a_folder_for_temporary_files_that_is_gone_is_replaced_and_told(machine, monkeypatch, name):
    monkeypatch.setenv(name, str(machine / "gone"))
    (line,) = room.make_room()
    assert line == f"temporary files go to /tmp, as {name} cannot be used: {machine / 'gone'} is not there"
    assert os.environ[name] == tempfile.gettempdir() == "/tmp"


def test_no_room_anywhere_is_refused(machine, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(machine / "gone"))
    monkeypatch.setattr(room, "TEMPORARY", (machine / "too",))
    with pytest.raises(UserError, match=r"no room for temporary files.*TMPDIR.*nothing was started"):
        list(room.make_room())


def test_a_full_disk_is_seen_by_writing(machine, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(room.tempfile, "TemporaryFile", lambda **_: Full())
    assert room.problem_of(machine) == f"the disk is full ({machine})"


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_a_home_that_may_not_be_written_is_replaced_and_told(machine, monkeypatch, variable):
    (machine / "file").write_text("")
    monkeypatch.setenv(variable, str(machine / "file"))
    (line,) = room.make_room()
    assert line.startswith(f"Snakemake's cache is .snakemake/cache, as {machine / 'file'}")
    assert os.environ["XDG_CACHE_HOME"] == str(machine / "project/.snakemake/cache")
    assert list(room.make_room()) == []


def test_a_user_without_a_name_gets_its_number(machine, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(os, "getuid", lambda: 987654)
    assert list(room.make_room()) == []
    assert getpass.getuser() == "987654"


@pytest.mark.parametrize("name", ["my {lab}", "{", "a}b"])
def test_braces_in_the_path_are_refused(machine, name):
    with pytest.raises(UserError, match=r"braces.*rename the folder.*nothing was started"):
        room.refuse_unfit_folder(machine / name)


@pytest.mark.parametrize("closed", [".snakemake", ".snakemake/metadata"])
def test_records_of_snakemake_that_may_not_be_written_are_refused(machine, monkeypatch, closed):
    (machine / ".snakemake/metadata").mkdir(parents=True)
    write = tempfile.TemporaryFile

    def of_another(dir, **more):
        if dir == machine / closed:
            raise PermissionError(13, "Permission denied", str(dir / "x"))
        return write(dir=dir, **more)

    monkeypatch.setattr(room.tempfile, "TemporaryFile", of_another)
    with pytest.raises(UserError) as refused:
        room.refuse_unfit_folder(machine)
    assert str(refused.value).startswith(f"{machine / closed} may not be read or written")
    assert str(refused.value).endswith("nothing was started")
