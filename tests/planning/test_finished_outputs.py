"""Old outputs stay while a job works, and come back whole when it has failed, at whatever moment."""

import asyncio
import errno
import os
from types import SimpleNamespace

import pytest

from leaklab.planning import outputs
from leaklab.planning.outputs import Aside
from leaklab.planning.snakemake_patches import keep_finished_outputs


@pytest.fixture(params=["links", "copies"])
def files(request, tmp_path, monkeypatch):
    """Two outputs, of which the first was made before, and their links; on some file systems these are copies."""
    if request.param == "copies":

        def no_links(*_):
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(os, "link", no_links)
    old, new = tmp_path / "runs/old.json", tmp_path / "runs/new.json"
    old.parent.mkdir()
    old.write_text("old")
    os.utime(old, (1e9, 1e9))
    return old, new, Aside([old, new], tmp_path / "aside")


def renamed_over(path, text):
    """Write as steps do."""
    part = path.with_name(".part")
    part.write_text(text)
    part.replace(path)


def is_as_before(old, new):
    alone = [path.name for path in old.parent.iterdir()] == [old.name]
    return alone and old.read_text() == "old" and old.stat().st_mtime == 1e9 and not new.exists()


def test_outputs_stay_while_the_job_works(files):
    old, new, aside = files
    aside.take()
    assert is_as_before(old, new)


@pytest.mark.parametrize("made", [(), ("old",), ("new",), ("old", "new"), ("gone",)])
def test_what_was_there_comes_back_whatever_was_made(files, made):
    old, new, aside = files
    aside.take()
    if "old" in made:
        renamed_over(old, "half")
    if "new" in made:
        renamed_over(new, "half")
    if "gone" in made:
        old.unlink()
        old.parent.rmdir()
    aside.put_back()
    assert is_as_before(old, new)
    assert not list(aside.folder.parent.iterdir())


def test_a_job_that_was_killed_is_put_back_before_it_begins_again(files):
    old, new, aside = files
    aside.take()
    renamed_over(old, "half")
    renamed_over(new, "half")
    aside.take()
    assert is_as_before(old, new)
    renamed_over(old, "again")
    aside.put_back()
    assert is_as_before(old, new)


def test_what_a_job_made_stays_when_it_has_ended_well(files):
    old, new, aside = files
    aside.take()
    renamed_over(old, "new one")
    renamed_over(new, "new two")
    aside.remove_unmade()
    aside.drop()
    aside.put_back()  # of nothing
    assert (old.read_text(), new.read_text()) == ("new one", "new two")
    assert not list(aside.folder.parent.iterdir())


def test_an_output_that_was_not_made_anew_is_missed(files):
    old, new, aside = files
    aside.take()
    renamed_over(new, "new two")
    aside.remove_unmade()
    assert not old.exists()
    assert new.exists()


def test_a_job_that_never_began_changes_nothing(files):
    old, new, aside = files
    aside.put_back()
    aside.remove_unmade()
    aside.drop()
    assert is_as_before(old, new)


def test_a_death_while_the_links_are_made_leaves_no_half_of_them(files, monkeypatch):
    old, new, aside = files
    with monkeypatch.context() as killed:

        def dies(*_):
            raise KeyboardInterrupt

        killed.setattr(outputs, "_link", dies)
        with pytest.raises(KeyboardInterrupt):
            aside.take()
    aside.put_back()
    assert is_as_before(old, new)
    aside.take()
    renamed_over(old, "half")
    aside.put_back()
    assert is_as_before(old, new)


def test_jobs_do_not_share_their_links(tmp_path):
    one, other = (Aside([tmp_path / name, tmp_path / "run.json"], tmp_path / "aside") for name in "ab")
    assert one.folder != other.folder


def test_on_a_full_disk_outputs_stay_without_links(files, monkeypatch):
    """The job begins all the same, and says itself that the disk is full."""
    old, new, _ = files
    logs = []

    class Job:
        output = (str(old), str(new))
        log = (SimpleNamespace(remove=lambda **_: nothing(logs)),)

        async def postprocess(self, error=False):
            await self.cleanup(set())

    async def nothing(done):
        done.append("removed")

    async def finished(self, job):
        raise AssertionError

    keep_finished_outputs(Job, type("Records", (), {"finished": finished}))
    monkeypatch.setattr(outputs.Path, "mkdir", full)
    monkeypatch.setattr(outputs, "PLACE", old.parent.parent / "aside")
    asyncio.run(Job().remove_existing_output())
    asyncio.run(Job().postprocess(error=True))
    assert is_as_before(old, new)
    assert logs == ["removed"]


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")
