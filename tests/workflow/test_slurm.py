"""`snakemake --profile slurm`, literally, on a real Slurm of this machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STARTER = Path(os.environ.get("LEAKLAB_LOCAL_SLURM", ROOT.parent / "shared/tools/local-slurm"))


def test_profile_is_found_by_its_bare_name_and_gpus_are_asked_for_on_cuda(checkout, tmp_path):
    cuda = checkout.copy(tmp_path / "cuda")
    cuda.edit("config/config.yaml", "device: cpu ", "device: cuda ")
    text = cuda.must("snakemake", "--profile", "slurm", "--dry-run", "demo")
    for rule, gpus in (("train_federated", True), ("run_attack", True), ("score_attack", False), ("make_table", False)):
        block = re.search(rf"(?:rule|localrule) {rule}:\n(.*?)(?=\n\[|\nJob stats|\Z)", text, re.DOTALL)
        assert block, f"no {rule} in the plan"
        assert bool(re.search(r"\bgpu=1\b", block.group(1))) == gpus, rule


@pytest.fixture
def slurm():
    """A running Slurm: the cluster's own, or one started for the test."""
    if shutil.which("sinfo") and subprocess.run(["sinfo"], capture_output=True, check=False).returncode == 0:
        yield
        return
    if os.geteuid() != 0:
        pytest.skip("no Slurm here, and starting one needs root")
    if not STARTER.is_file():
        pytest.skip("no Slurm here, and no script that starts one (LEAKLAB_LOCAL_SLURM)")
    started = subprocess.run([STARTER, "start"], capture_output=True, text=True, timeout=300, check=False)
    if started.returncode != 0:
        pytest.skip(f"Slurm could not be started: {started.stdout[-200:]}{started.stderr[-200:]}")
    yield
    subprocess.run([STARTER, "stop"], capture_output=True, timeout=120, check=False)


@pytest.mark.slurm
@pytest.mark.machine
@pytest.mark.workflow
def test_demo_runs_on_slurm(checkout, slurm, tmp_path):
    cluster = checkout.clone(tmp_path / "cluster")
    shorten(cluster)
    cluster.must("snakemake", "--profile", "slurm", "--config", "scale=demo", timeout=900)
    records = list((cluster.folder / "results/runs/attack").rglob("run.json"))
    assert records
    assert all('"slurm_job": "' in record.read_text() for record in records)


KEPT = ("table1", "table4", "figure2", "algorithm1")


def shorten(cluster):
    """Leave few jobs of each rule: a job on Slurm costs seconds however short it is."""
    for path in (cluster.folder / "config/items/lrp").glob("*.yaml"):
        item = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "scales" not in item:
            continue
        if path.stem not in KEPT:
            del item["scales"]["demo"]
        if path.stem == "table1":
            small = {"dataset": "digits", "partition.shard_size": 25, "model": "mlp", "rounds": 5, "seeds": [1024]}
            item["scales"]["demo"] = {"drop": ["draws", "cnn-corners"], "set": small}
        path.write_text(yaml.safe_dump(item, allow_unicode=True), encoding="utf-8")
