"""Long jobs in pieces, through Snakemake: the same bytes, and nothing to do afterwards, however they were cut."""

import shutil

import pytest

from leaklab.items.items import load_items
from leaklab.planning.pieces import FILE, kept_in
from leaklab.planning.plan import build_plan
from leaklab.planning.resources import cost

pytestmark = pytest.mark.workflow
PIECES = 7
CHAINS = 2
"""Of the attack: it has twenty updates; a chain is as long as its cost asks for in pieces of the training's length."""


def test_runs_in_pieces_have_the_bytes_of_whole_ones(few, tmp_path):
    torn = few.copy(tmp_path / "torn")
    plan = build_plan(load_items(torn.folder / "config/items"), ["demo"])
    cut = {"LEAKLAB_PIECE_MINUTES": str(1.001 * cost(a_training(plan).spec).seconds / 60 / PIECES),
           "LEAKLAB_CHECKPOINT_SECONDS": "0"}  # fmt: skip
    attack, training = (torn.folder / job.folder for job in (long_attack(plan), a_training(plan)))
    targets = [str((folder / name).relative_to(torn.folder)) for folder, name in
               ((attack, "trials.csv"), (training, "sweep.parquet"))]  # fmt: skip
    torn.must("snakemake", "--cores", "2", "--quiet", "all", "--", targets[0])  # the training is there
    files = [path for folder in (attack, training) for path in sorted(folder.iterdir()) if path.name != "run.json"]
    whole = {path: path.read_bytes() for path in files}
    for folder in (attack, training):
        shutil.rmtree(folder)
    said = torn.talk(torn.must("snakemake", "--cores", "2", "--", *targets, **cut))
    told = kept_in(attack / FILE)
    assert said.count("rule attack_piece:") == told["pieces"] == CHAINS * told["chain"]
    assert told["chain"] > 1
    assert "rule join_pieces:" in said
    assert said.count("rule train_piece:") == PIECES - 1
    assert {path: path.read_bytes() for path in files} == whole
    left = [*attack.glob("*checkpoint*"), *training.glob("*checkpoint*"), *attack.glob("piece-*.safetensors")]
    assert not left
    for more in (cut, {}):
        assert "Nothing to be done" in torn.must("snakemake", "--dry-run", "--cores", "2", "--", *targets, **more)


def long_attack(plan):
    """Return an attack of scale demo on more updates than are attacked together."""
    jobs = plan.jobs["attack"].values()
    found = [job for job in jobs if job.spec.attack.name == "ig" and job.spec.capture.trials > 10]
    return min(found, key=lambda job: job.name)


def a_training(plan):
    jobs = plan.jobs["train"].values()
    return min(
        (job for job in jobs if job.spec.model.name == "mlp" and job.spec.rounds >= 10), key=lambda job: job.name
    )
