"""Long jobs in pieces, through Snakemake: the same bytes, and nothing to do afterwards, however they were cut."""

import shutil

import pytest

pytestmark = pytest.mark.workflow
CUT = {"LEAKLAB_PIECE_MINUTES": "0.0005", "LEAKLAB_CHECKPOINT_SECONDS": "0"}


def test_runs_in_pieces_have_the_bytes_of_whole_ones(demo, tmp_path):
    torn = demo.copy(tmp_path / "torn")
    runs = torn.folder / "results/runs"
    attack = next(path for path in sorted(runs.glob("attack/digits-ig-none-on-none-*")) if has_chunks(path))
    training = next(iter(sorted(runs.glob("train/digits-mlp-lrp-*"))))
    files = [path for folder in (attack, training) for path in sorted(folder.iterdir()) if path.name != "run.json"]
    whole = {path: path.read_bytes() for path in files}
    for folder in (attack, training):
        shutil.rmtree(folder)
    targets = [str((attack / "trials.csv").relative_to(torn.folder)),
               str((training / "sweep.parquet").relative_to(torn.folder))]  # fmt: skip
    said = torn.must("snakemake", "--cores", "2", "--", *targets, **CUT)
    assert "rule attack_piece:" in said
    assert "rule join_pieces:" in said
    assert said.count("rule train_piece:") >= 2
    assert {path: path.read_bytes() for path in files} == whole
    assert not list(attack.glob("*checkpoint*")) + list(training.glob("*checkpoint*")) + list(attack.glob("piece-*.s*"))
    for more in (CUT, {}):
        assert "Nothing to be done" in torn.must("snakemake", "--dry-run", "--cores", "2", "--", *targets, **more)


def has_chunks(folder):
    from leaklab.records.files import read_json

    return read_json(folder / "run.json")["facts"]["trials"] > 10
