"""Kept digests are those that would be found, for the same sources only; what is wrong with them costs time alone."""

import json

import pytest

from leaklab.planning.code import KeptDigests
from leaklab.records import code

JOB = ("leaklab.steps.make_table", ("leaklab.metrics.pixel:PLUGIN",), ())


@pytest.fixture
def file(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    return tmp_path / ".snakemake/code-digests.json"


def never(*_):
    raise AssertionError("parsed again")


def test_a_second_process_parses_nothing_and_finds_the_same(file, monkeypatch):
    first = KeptDigests.load("a", file)
    found = first.digest(*JOB)
    assert found == code.digest(*JOB)
    first.save()
    monkeypatch.setattr(code, "digest", never)
    assert KeptDigests.load("a", file).digest(*JOB) == found


@pytest.mark.parametrize("other", [("a", JOB[:1]), ("b", JOB), ("a", (*JOB[:2], ("leaklab.metrics.pixel:PLUGIN",)))])
def test_of_other_starts_or_sources_nothing_is_known(file, monkeypatch, other):
    first = KeptDigests.load("a", file)
    first.digest(*JOB)
    first.save()
    monkeypatch.setattr(code, "digest", never)
    sources, job = other
    with pytest.raises(AssertionError, match="parsed again"):
        KeptDigests.load(sources, file).digest(*job)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"sources": "a"}', '{"sources": "a", "digests": 3}', '{"sources": "a", "digests": {"x": 3}}'],
)
def test_a_damaged_file_is_done_without_and_written_anew(file, content):
    file.write_text(content, encoding="utf-8")
    kept = KeptDigests.load("a", file)
    assert kept.digest(*JOB) == code.digest(*JOB)
    kept.save()
    assert json.loads(file.read_text())["sources"] == "a"


def test_what_another_process_kept_meanwhile_stays(file):
    one, other = KeptDigests.load("a", file), KeptDigests.load("a", file)
    one.digest(*JOB)
    other.digest(*JOB[:1])
    one.save()
    other.save()
    assert len(KeptDigests.load("a", file).digests) == 2


def test_no_folder_is_made_and_a_full_disk_is_no_mistake(tmp_path, file, monkeypatch):
    for place in (tmp_path / "nowhere/x.json", file):
        kept = KeptDigests.load("a", place)
        kept.digest(*JOB)
        monkeypatch.setattr("leaklab.planning.code.write_json", lambda *_: (_ for _ in ()).throw(OSError(28)))
        kept.save()
        assert not place.exists()
    assert not (tmp_path / "nowhere").exists()
