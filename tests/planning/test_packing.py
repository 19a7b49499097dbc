"""Archives of what tables and figures read of runs: the same bytes back, or one line that says what is wrong."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from leaklab.planning import packing
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json

ITEM = SimpleNamespace(paper="lrp", item="figure2", key="lrp/figure2", renderer="image-grid")
CURVES = SimpleNamespace(paper="lrp", item="figure2", key="lrp/figure2", renderer="curves")
SCORES = Path("results/runs/score/one/scores.csv")
PICTURE = Path("results/runs/attack/one/reconstruction.safetensors")
CARD = Path("data/prepared/digits.json")
TENSORS = Path("data/prepared/digits.safetensors")
ARCHIVE = Path("results/small/lrp/figure2.runs.zip")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A table and a figure, with the files that their records name."""
    monkeypatch.chdir(tmp_path)
    for path in (SCORES, PICTURE, CARD, TENSORS, Path("config/items/lrp/figure2.yaml")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"bytes of {path}")
    for folder, read in (("results", (SCORES, CARD, TENSORS)), ("figures", (PICTURE,))):
        inputs = {str(path): sha256(path) for path in (*read, Path("config/items/lrp/figure2.yaml"))}
        write_json(Path(folder, "small/lrp/figure2.run.json"), {"inputs": inputs})
    return tmp_path


def packed(item=ITEM):
    return list(packing.pack([item], "small"))


def rewrite(name, content):
    """Put other bytes under a name into the archive."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        kept = {path: archive.read(path) for path in archive.namelist()}
    with zipfile.ZipFile(ARCHIVE, "w") as archive:
        for path, own in {**kept, name: content}.items():
            archive.writestr(path, own)


def test_what_was_packed_comes_back_with_its_bytes_and_older_than_any_table(project):
    assert "3 files" in packed()[0]
    before = {path: path.read_bytes() for path in (SCORES, PICTURE, CARD)}
    for path in before:
        path.unlink()
    assert packing.unpack(ITEM, "small") == 3
    assert {path: path.read_bytes() for path in before} == before
    assert {path.stat().st_mtime for path in before} == {0}
    assert not list(project.rglob("*.part*"))


def test_data_and_configuration_are_not_packed_and_pictures_only_where_they_are_drawn(project):
    packed(CURVES)
    with zipfile.ZipFile(ARCHIVE) as archive:
        assert archive.namelist() == [str(CARD), str(SCORES)]


def test_equal_files_make_equal_archives_and_nothing_is_written_twice(project):
    packed()
    first = ARCHIVE.read_bytes()
    assert packed() == []
    ARCHIVE.unlink()
    packed()
    assert ARCHIVE.read_bytes() == first


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("of another run")])
def test_where_a_run_is_elsewhere_or_another_the_archive_stays(project, spoil):
    packed()
    before = ARCHIVE.read_bytes()
    spoil(SCORES)
    assert packed() == []
    assert ARCHIVE.read_bytes() == before


def test_a_file_that_is_here_stays(project):
    packed()
    SCORES.write_text("made again here")
    PICTURE.unlink()
    assert packing.unpack(ITEM, "small") == 1
    assert SCORES.read_text() == "made again here"


@pytest.mark.parametrize("name", [str(SCORES), "../outside.csv", str(TENSORS), "results/runs/score/two/scores.csv"])
def test_what_the_records_do_not_name_by_these_bytes_is_refused_and_nothing_is_written(project, name):
    packed()
    rewrite(name, b"not what was recorded")
    for path in (SCORES, PICTURE, CARD):
        path.unlink()
    with pytest.raises(UserError, match="is not what the item's records name"):
        packing.unpack(ITEM, "small")
    assert not SCORES.exists()
    assert not (project.parent / "outside.csv").exists()
    assert len(list(packing.faults([ITEM], "small"))) == 1


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda content: b"no archive"])
def test_a_damaged_archive_is_one_line(project, damage):
    packed()
    ARCHIVE.write_bytes(damage(ARCHIVE.read_bytes()))
    with pytest.raises(UserError, match=r"figure2.runs.zip.* is damaged"):
        packing.unpack(ITEM, "small")


def test_a_flipped_bit_inside_is_found(project):
    packed()
    content = bytearray(ARCHIVE.read_bytes())
    content[45 + len(str(CARD))] ^= 1
    ARCHIVE.write_bytes(bytes(content))
    with pytest.raises(UserError):
        packing.unpack(ITEM, "small")


def test_an_archive_without_all_files_is_a_fault_and_a_whole_one_none(project):
    packed(CURVES)
    assert [line for line in packing.faults([ITEM], "small") if "lacks 1 files" in line]
    packed()
    assert list(packing.faults([ITEM], "small")) == []


def test_without_an_archive_there_is_a_line_that_says_who_writes_it(project):
    with pytest.raises(UserError, match="leaklab pack"):
        packing.unpack(ITEM, "small")
