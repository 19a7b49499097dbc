"""Kept digests are those that would be found, for the same sources only; what is wrong with them costs time alone."""

import json

import pytest

from leaklab.planning.kept_digests import KeptDigests, hash_of_sources
from leaklab.records import code

MODULES, COMMAND = ("leaklab.steps.make_table", "leaklab.metrics.psnr"), "python -m leaklab.steps.make_table"


@pytest.fixture
def file(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    return tmp_path / ".snakemake/code-digests.json"


def never(modules, command=""):
    raise AssertionError("parsed again")


def test_a_second_process_parses_nothing_and_finds_the_same(file, monkeypatch):
    first = KeptDigests.load("a", file)
    found = first.digest(MODULES, COMMAND)
    assert found == code.digest(MODULES, COMMAND)
    first.save()
    monkeypatch.setattr(code, "digest", never)
    assert KeptDigests.load("a", file).digest(MODULES, COMMAND) == found


@pytest.mark.parametrize("other", [("a", MODULES[:1], COMMAND), ("a", MODULES, "true"), ("b", MODULES, COMMAND)])
def test_of_other_modules_commands_or_sources_nothing_is_known(file, monkeypatch, other):
    first = KeptDigests.load("a", file)
    first.digest(MODULES, COMMAND)
    first.save()
    monkeypatch.setattr(code, "digest", never)
    sources, modules, command = other
    with pytest.raises(AssertionError, match="parsed again"):
        KeptDigests.load(sources, file).digest(modules, command)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"sources": "a"}', '{"sources": "a", "digests": 3}', '{"sources": "a", "digests": {"x": 3}}'],
)
def test_a_damaged_file_is_done_without_and_written_anew(file, content):
    file.write_text(content, encoding="utf-8")
    kept = KeptDigests.load("a", file)
    assert kept.digest(MODULES, COMMAND) == code.digest(MODULES, COMMAND)
    kept.save()
    assert json.loads(file.read_text())["sources"] == "a"


def test_what_another_process_kept_meanwhile_stays(file):
    one, other = KeptDigests.load("a", file), KeptDigests.load("a", file)
    one.digest(MODULES, COMMAND)
    other.digest(MODULES, "true")
    one.save()
    other.save()
    assert len(KeptDigests.load("a", file).digests) == 2


def test_no_folder_is_made_and_a_full_disk_is_no_mistake(tmp_path, file, monkeypatch):
    for place in (tmp_path / "nowhere/x.json", file):
        kept = KeptDigests.load("a", place)
        kept.digest(MODULES, COMMAND)
        monkeypatch.setattr("leaklab.planning.kept_digests.write_json", lambda *_: (_ for _ in ()).throw(OSError(28)))
        kept.save()
        assert not place.exists()
    assert not (tmp_path / "nowhere").exists()


def test_the_hash_sees_names_and_bytes(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    seen = {hash_of_sources(tmp_path)}
    (tmp_path / "a.py").write_text("x = 2\n")
    seen.add(hash_of_sources(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    seen.add(hash_of_sources(tmp_path))
    (tmp_path / "notes.txt").write_text("no code")
    assert len(seen) == 3
    assert hash_of_sources(tmp_path) in seen
