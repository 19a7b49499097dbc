"""Archives of what tables and figures read of runs: the same bytes back, or one line that says what is wrong."""

import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from leaklab.items.items import load_items
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.plan import build_plan
from leaklab.planning.result_lookups import OF_SCORES, scores
from leaklab.provenance import packing
from leaklab.records.errors import UserError
from leaklab.records.files import sha256, write_json
from leaklab.report.site.publication import of_archive

ITEM = SimpleNamespace(paper="lrp", item="figure2", key="lrp/figure2", renderer="sentences")
CURVES = SimpleNamespace(paper="lrp", item="figure2", key="lrp/figure2", renderer="curves")
SCORES = Path("results/runs/score/one/scores.csv")
SENTENCES = Path("results/runs/score-text/one/sentences.csv")
PICTURE = Path("results/runs/attack/one/reconstruction.safetensors")
CARD = Path("data/prepared/digits.json")
TENSORS = Path("data/prepared/digits.safetensors")
YAML = Path("config/items/lrp/figure2.yaml")
ARCHIVE = Path("results/small/lrp/figure2.runs.zip")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A table and a figure, with the files that their records name."""
    monkeypatch.chdir(tmp_path)
    for path in (SCORES, SENTENCES, PICTURE, CARD, TENSORS, YAML):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"bytes of {path}")
    table, figure = Path("results/small/lrp/figure2.csv"), Path("figures/small/lrp/figure2.png")
    made = {table: (SCORES, CARD, TENSORS), figure: (SENTENCES, PICTURE, table)}
    for path, read in {**dict.fromkeys((SCORES, SENTENCES, PICTURE, CARD), ()), **made}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path in made:
            path.write_text("shown")
        record(path, (*read, *[YAML] * (path in made)))
    return tmp_path


def record(path, read):
    name = path.with_suffix(".run.json") if path in (CARD,) or path.parts[1] == "small" else path.with_name("run.json")
    hashes = {str(one): sha256(one) for one in read}
    own = {"rule": "a_rule", "spec": {}, "code": "c", "inputs": hashes, "outputs": {str(path): sha256(path)}}
    times = {"started": "2026-01-01T00:00:00+00:00", "wall_seconds": 2.0, "cpu_seconds": 1.0, "peak_memory_mb": 3.0}
    write_json(name, {**own, **times, "argv": [], "device": "cpu", "facts": {}})


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
    assert "3 files of runs" in packed()[0]
    before = {path: path.read_bytes() for path in (SCORES, SENTENCES, CARD)}
    for path in before:
        path.unlink()
    assert packing.unpack(ITEM, "small") == 3
    assert {path: path.read_bytes() for path in before} == before
    assert {path.stat().st_mtime for path in before} == {0}
    assert not list(project.rglob("*.part*"))


def test_data_tensors_and_configuration_are_not_packed_and_sentences_only_where_they_are_shown(project):
    packed(CURVES)
    with zipfile.ZipFile(ARCHIVE) as archive:
        files = [name for name in archive.namelist() if not name.endswith("run.json")]
    assert files == [str(CARD), str(SCORES)]
    packed()
    with zipfile.ZipFile(ARCHIVE) as archive:
        assert str(SENTENCES) in archive.namelist()
        assert str(PICTURE) not in archive.namelist()


def test_records_of_runs_tell_what_they_took_and_are_not_put_back(project):
    packed()
    cost, _ = of_archive(ARCHIVE, Path("figures/small/lrp/figure2.png"))
    assert (cost.jobs, cost.wall_seconds, cost.cpu_seconds) == (6, 12.0, 6.0)
    shutil.rmtree("results/runs")
    packing.unpack(ITEM, "small")
    assert not list(Path("results/runs").rglob("run.json"))
    assert packed() == []
    assert of_archive(ARCHIVE, Path("figures/small/lrp/figure2.png"))[0] == cost


def test_an_archive_of_other_runs_tells_no_cost(project):
    packed()
    record(Path("results/small/lrp/figure2.csv"), (SCORES, CARD, Path("config/items/lrp/figure2.yaml")))
    record(Path("figures/small/lrp/figure2.png"), (Path("results/small/lrp/figure2.csv"),))
    assert of_archive(ARCHIVE, Path("figures/small/lrp/figure2.png"))[0].jobs == 4
    elsewhere = Path("results/runs/score/two/scores.csv")
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("of another run")
    record(Path("results/small/lrp/figure2.csv"), (elsewhere,))
    with pytest.raises(UserError, match="not of the runs"):
        of_archive(ARCHIVE, Path("figures/small/lrp/figure2.png"))


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
    SENTENCES.unlink()
    assert packing.unpack(ITEM, "small") == 1
    assert SCORES.read_text() == "made again here"


@pytest.mark.parametrize("name", [str(SCORES), "../outside.csv", str(TENSORS), "results/runs/score/two/scores.csv"])
def test_what_the_records_do_not_name_by_these_bytes_is_refused_and_nothing_is_written(project, name):
    packed()
    rewrite(name, b"not what was recorded")
    for path in (SCORES, SENTENCES, CARD):
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
    content[content.index(str(SCORES).encode()) + len(str(SCORES)) + 3] ^= 1
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


def test_a_table_reads_the_metric_cards_of_all_runs_that_have_some():
    """Or the archive of what it was made of could not show them: of images, along landscapes, and of sentences."""
    assert {stage for stage, _ in OF_SCORES} == {"score", "landscape", "score-text"}
    items = load_items(Path(__file__).parents[2] / "config/items")
    chosen = {key: items[key] for key in ("lrp/figure7", "lrp/figure4", "lrp/table7")}
    plan = KnownPlan.of(build_plan(chosen, ("small",)))
    for item in chosen.values():
        read = [Path(file) for file in scores(plan, "small", item)]
        folders = {path.parent for path in read if path.name in ("scores.csv", "landscape.csv")}
        assert folders
        assert {path.parent for path in read if path.name == "cards.json"} == folders
