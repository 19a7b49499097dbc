"""`snakemake --profile slurm`, literally, on a real Slurm of this machine with an accounting database and without."""

import re

import pytest


def test_profile_is_found_by_its_bare_name_and_gpus_are_asked_for_on_cuda(checkout, tmp_path):
    cuda = checkout.copy(tmp_path / "cuda")
    cuda.edit("config/config.yaml", "device: cpu ", "device: cuda ")
    text = cuda.must("snakemake", "--profile", "slurm", "--dry-run", "demo")
    for rule, gpus in (("train_federated", True), ("run_attack", True), ("score_attack", False), ("make_table", False)):
        block = re.search(rf"(?:rule|localrule) {rule}:\n(.*?)(?=\n\[|\nJob stats|\Z)", text, re.DOTALL)
        assert block, f"no {rule} in the plan"
        assert bool(re.search(r"\bgpu=1\b", block.group(1))) == gpus, rule


@pytest.mark.slurm
@pytest.mark.machine
@pytest.mark.workflow
@pytest.mark.parametrize("slurm", ["squeue", "sacct"], indirect=True)
def test_the_literal_call_ends_and_says_how_it_asks_for_jobs(slurm, cluster):
    said = cluster.must("snakemake", "--profile", "slurm", timeout=600)
    lines = [line for line in said.splitlines() if "is asked for the state of jobs" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"leaklab: {slurm} is asked")
    assert (cluster.folder / "results/paper/report/index.html").is_file()
    for stage in ("train", "capture", "attack", "score", "check"):
        records = list((cluster.folder / "results/runs" / stage).rglob("run.json"))
        assert records, stage
        assert all('"slurm_job": "' in record.read_text() for record in records)
    assert "Nothing to be done" in cluster.must("snakemake", "--profile", "slurm", "-n")
