"""Files behind links to folders are found: results and runs may lie on another disk."""

import json

import pytest

from leaklab.provenance.signing import _strangers
from leaklab.records.ledger import Ledger
from leaklab.records.walk import files_below

RECORD = {"rule": "train_federated", "inputs": {}, "outputs": {}, "spec": {}, "code": ""}


@pytest.fixture
def linked(tmp_path, monkeypatch):
    """A project whose runs, and figures of one scale, are links to another place."""
    monkeypatch.chdir(tmp_path)
    for name, place in (("results/runs", "scratch/runs"), ("figures", "scratch/figures")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / place, target_is_directory=True)
    return tmp_path


@pytest.mark.parametrize("folder", ["results/runs/train/x", "figures/small", "results/small"])
def test_a_record_behind_a_link_is_a_record(linked, folder):
    (linked / folder).mkdir(parents=True)
    (linked / folder / "run.json").write_text(json.dumps(RECORD))
    assert [str(entry.path) for entry in Ledger.scan().entries] == [f"{folder}/run.json"]


def test_what_lies_among_signed_results_behind_a_link_is_seen(linked):
    (linked / "figures/small/lrp").mkdir(parents=True)
    (linked / "figures/small/lrp/forged.png").write_text("")
    assert ["figures/small/lrp/forged.png" in line for line in _strangers("small", {})] == [True]


def test_files_come_in_order_and_a_folder_in_itself_is_walked_once(linked):
    inner = linked / "results/runs/b"
    inner.mkdir()
    for path in (inner / "2", inner / "1", linked / "results/runs/c"):
        path.write_text("")
    (inner / "again").symlink_to(linked / "results", target_is_directory=True)
    (inner / "nowhere").symlink_to(linked / "gone")
    found = [path.relative_to(linked / "results").as_posix() for path in files_below(linked / "results")]
    assert found == ["runs/b/1", "runs/b/2", "runs/c"]
    assert list(files_below(linked / "gone")) == []


def test_a_folder_that_may_not_be_read_is_an_error_or_empty(linked, monkeypatch):
    from leaklab.records import walk

    def closed(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(walk.os, "scandir", closed)
    with pytest.raises(PermissionError):
        list(files_below(linked))
    assert list(files_below(linked, closed=False)) == []
