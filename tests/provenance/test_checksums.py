"""A second audit reads only what changed, sees every edit, and takes nothing that is kept for more than it is."""

import json
import os
import time

import pytest

from leaklab.planning.code import code_of_result
from leaklab.planning.plan import Plan
from leaklab.provenance import full_audit
from leaklab.provenance.full_audit import SETTLED_NS, KeptChecksums
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.recorder import Recorder


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with one file; time goes on by a minute between a change and an audit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    (tmp_path / "data.bin").write_bytes(b"some bytes")
    clock = time.time_ns
    monkeypatch.setattr(full_audit.time, "time_ns", lambda: clock() + 60 * 10**9)
    return tmp_path


@pytest.fixture
def data(place):
    return (place / "data.bin").relative_to(place)


def audited(*files):
    """Return the checksums of files as an audit finds them, and how many it read."""
    kept = KeptChecksums.load()
    found = [kept.of(file) for file in files]
    kept.save()
    return found, kept.read


def test_what_has_not_changed_is_not_read_again(data, monkeypatch):
    assert audited(data) == ([sha256(data)], 1)
    monkeypatch.setattr(full_audit, "sha256", lambda path: pytest.fail("read again"))
    assert audited(data)[1] == 0
    assert audited(data)[1] == 0


@pytest.mark.parametrize("change", ["bytes", "bytes and time", "another file", "time"])
def test_a_change_is_seen(data, change):
    (old,), _ = audited(data)
    times = (data.stat().st_atime_ns, data.stat().st_mtime_ns)
    if change.startswith("bytes"):
        with data.open("r+b") as handle:
            handle.write(b"S")
    if change == "bytes and time":
        os.utime(data, ns=times)
    elif change == "another file":
        data.with_suffix(".new").write_bytes(b"Some bytes")
        os.utime(data.with_suffix(".new"), ns=times)
        data.with_suffix(".new").replace(data)
    elif change == "time":
        os.utime(data, ns=(times[0], times[1] + 1))
    (new,), read = audited(data)
    assert read == 1
    assert new == sha256(data)
    assert (new == old) == (change == "time")


def test_what_changed_a_moment_ago_is_read_again(data, monkeypatch):
    changed = max(data.stat().st_mtime_ns, data.stat().st_ctime_ns)
    monkeypatch.setattr(full_audit.time, "time_ns", lambda: changed + SETTLED_NS)
    assert audited(data)[1] == 1
    assert audited(data)[1] == 1


def test_what_changes_while_it_is_read_is_not_kept(data, monkeypatch):
    def reading(path):
        value = sha256(path)
        path.write_bytes(b"other bytes")
        return value

    monkeypatch.setattr(full_audit, "sha256", reading)
    audited(data)
    monkeypatch.setattr(full_audit, "sha256", sha256)
    assert audited(data) == ([sha256(data)], 1)


def test_only_what_the_last_audit_asked_for_is_kept(data):
    other = data.with_name("other.bin")
    other.write_bytes(b"x")
    audited(data, other)
    audited(other)
    assert list(json.loads(full_audit.FILE.read_text())["files"]) == ["other.bin"]


DAMAGED = (3, [1, 2, 3, 4, 5], [1, 2, 3, True, "a"], [1, 2])


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "[" * 100_000, '{"format": 1}', '{"format": 1, "files": [3]}']
    + [json.dumps({"format": 1, "files": {"data.bin": line}}) for line in DAMAGED],
)
def test_a_damaged_file_is_done_without_and_written_anew(data, content):
    full_audit.FILE.write_text(content)
    assert audited(data) == ([sha256(data)], 1)
    assert audited(data)[1] == 0


def test_of_another_format_nothing_is_taken(data):
    audited(data)
    content = json.loads(full_audit.FILE.read_text())
    full_audit.FILE.write_text(json.dumps(content | {"format": 2}))
    assert audited(data)[1] == 1


def test_no_folder_is_made_and_a_full_disk_is_no_mistake(data, monkeypatch):
    kept = KeptChecksums(data.with_name("nowhere") / "kept.json")
    kept.of(data)
    kept.save()
    assert not kept.file.parent.exists()
    monkeypatch.setattr(full_audit, "write_json", lambda *_: (_ for _ in ()).throw(OSError(28)))
    assert audited(data)[1] == 1
    assert not full_audit.FILE.exists()


class TestOfAProject:
    """``leaklab audit`` of a project with one recorded table."""

    @pytest.fixture
    def table(self, place, monkeypatch):
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(place.parent))
        monkeypatch.setattr(full_audit, "load_items", dict)
        monkeypatch.setattr(full_audit, "set_up", Plan)
        table = place / "results/small/lrp/table1.csv"
        table.parent.mkdir(parents=True)
        table.write_text("0.971\n")
        recorder = Recorder("make_table", code_of_result("make_table").digest)
        recorder.finish(table.with_suffix(".run.json").relative_to(place), {}, {}, {"csv": table.relative_to(place)})
        return table.relative_to(place)

    def test_the_second_one_says_that_it_read_nothing(self, table):
        assert list(full_audit.full_audit())[-1] == "audit passed: 1 records, 1 files checked"
        assert list(full_audit.full_audit())[-1] == (
            "audit passed: 1 records, 1 files checked (1 unchanged since an earlier audit and not read again: "
            "--full reads all)"
        )
        assert list(full_audit.full_audit(full=True))[-1] == "audit passed: 1 records, 1 files checked"

    def test_a_byte_whose_time_was_set_back_is_found(self, table):
        list(full_audit.full_audit())
        times = (table.stat().st_atime_ns, table.stat().st_mtime_ns)
        table.write_text("0.991\n")
        os.utime(table, ns=times)
        for full in (False, True):
            with pytest.raises(UserError, match="1 changed files"):
                list(full_audit.full_audit(full=full))

    def test_a_byte_that_no_program_changed_is_found_by_the_full_one_alone(self, table):
        """Bits that a disk lost leave all marks of the file as they were."""
        list(full_audit.full_audit())
        mark = table.stat()
        table.write_text("0.991\n")
        content = json.loads(full_audit.FILE.read_text())
        (line,) = content["files"].values()
        assert line[:3] == [mark.st_size, mark.st_mtime_ns, mark.st_ino]
        line[1], line[3] = table.stat().st_mtime_ns, table.stat().st_ctime_ns
        full_audit.FILE.write_text(json.dumps(content))
        assert list(full_audit.full_audit())[-1].startswith("audit passed")
        with pytest.raises(UserError, match="1 changed files"):
            list(full_audit.full_audit(full=True))
        with pytest.raises(UserError, match="1 changed files"):
            list(full_audit.full_audit())
