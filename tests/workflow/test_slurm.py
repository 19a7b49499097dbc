"""`snakemake --profile slurm`, literally, on a real Slurm of this machine with an accounting database and without."""

import re
import subprocess

import pytest

GPU_RULES = {"train_federated", "train_generator", "learn_law", "run_attack", "attack_text", "project_image",
             "map_landscape", "train_piece", "attack_piece", "text_piece"}  # fmt: skip
SINFO = "#!/bin/sh\nprintf 'cpu*|(null)|up\\nbig|gpu:a100:4(S:0-1)|up\\n'\n"


def planned_resources(text):
    """Return rule -> the resources of each of its jobs, as a dry run prints them."""
    found = {}
    for rule, block in re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", text, re.MULTILINE):
        line = re.search(r"^    resources: (.*)$", block, re.MULTILINE)
        found.setdefault(rule, []).append(dict(pair.split("=", 1) for pair in line[1].split(", ")) if line else {})
    return found


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_dry_run_shows_a_gpu_for_each_training_and_attack_where_the_cluster_has_some(checkout, tmp_path, device):
    there = checkout.clone(tmp_path / "there")  # in the other checkout the demo may have been made meanwhile
    there.edit("config/config.yaml", "device: auto", f"device: {device}")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, script in (("sinfo", SINFO), ("squeue", "#!/bin/sh\n")):  # the executor refuses a cluster without it
        (commands / name).write_text(script)
        (commands / name).chmod(0o755)
    text = there.must("snakemake", "--profile", "slurm", "--dry-run", "demo", PATH=str(commands))
    jobs = planned_resources(text)
    assert {"train_federated", "run_attack", "attack_text", "score_attack", "capture_updates", "make_table"} <= {*jobs}
    for rule, asked in jobs.items():
        assert all(one.get("gpu") == ("1" if rule in GPU_RULES else None) for one in asked), rule
        named = device == "auto" and rule in GPU_RULES
        assert all(one.get("slurm_partition") == ("big" if named else None) for one in asked), rule
    said = "leaklab: device auto: partitions with GPUs: big (gpu:a100:4); each training and attack asks for one in big"
    assert (said in text) == (device == "auto")


@pytest.mark.slurm
@pytest.mark.machine
@pytest.mark.workflow
def test_each_job_asks_slurm_for_a_gpu_where_there_are_some_and_for_none_elsewhere(slurm_with_gpus, cluster):
    rules = ("train_federated", "capture_updates")
    call = cluster.run("snakemake", "--profile", "slurm", "--retries", "0", "--until", *rules, timeout=400)
    asked = {rule: [] for rule in rules}
    for line in subprocess.run(
        ["scontrol", "show", "jobs", "--oneliner"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        for rule in rules:
            if f"rule_{rule}" in line:
                asked[rule].append("gpu" in "".join(re.findall(r"TresPer\w+=\S+", line)))
    assert all(asked.values())
    assert set(asked["train_federated"]) == {slurm_with_gpus > 0}
    assert set(asked["capture_updates"]) == {False}
    # there is nothing behind the GPUs: each job that asked for one says so in one line, all others are done
    lines = [line for line in call.stdout.splitlines() if line.startswith("leaklab: failed:")]
    lines = [line for line in lines if ": device cuda: no GPU works" in line]
    assert bool(lines) == (slurm_with_gpus > 0) == (call.returncode != 0)
    assert list((cluster.folder / "results/runs/capture").rglob("run.json"))


@pytest.mark.slurm
@pytest.mark.machine
@pytest.mark.workflow
@pytest.mark.parametrize("slurm", ["squeue"], indirect=True)
def test_without_accounting_squeue_is_asked_for_jobs(slurm, cluster):
    said = cluster.must("snakemake", "--profile", "slurm", "--until", "train_federated", timeout=600)
    _says_how_it_asks(said, slurm)
    # each job is told in words, on the console and in Slurm's own lists
    assert re.search(r"^ ?\d+ of \d+  lrp/table1: training, MLP on digits, LRP: \d", said, re.MULTILINE), said
    listed = ["squeue", "--states=all", "--noheader", "--format=%j"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    assert "lrp-table1-training-MLP-on-digits-LRP" in names
    talk = "".join(path.read_text() for path in (cluster.folder / ".snakemake/log").glob("*.log"))
    assert "has been submitted with SLURM jobid" in talk
    assert "has been submitted with SLURM jobid" not in said
    assert list((cluster.folder / "results/runs/train").rglob("run.json"))


@pytest.mark.slurm
@pytest.mark.machine
@pytest.mark.workflow
@pytest.mark.parametrize("slurm", ["sacct"], indirect=True)
def test_the_literal_call_ends_and_says_how_it_asks_for_jobs(slurm, cluster):
    _says_how_it_asks(cluster.must("snakemake", "--profile", "slurm", timeout=600), slurm)
    assert (cluster.folder / "results/paper/report/index.html").is_file()
    for stage in ("train", "capture", "attack", "score", "check"):
        records = list((cluster.folder / "results/runs" / stage).rglob("run.json"))
        assert records, stage
        assert all('"slurm_job": "' in record.read_text() for record in records)
    assert "Nothing to be done" in cluster.must("snakemake", "--profile", "slurm", "-n")


def _says_how_it_asks(said, command):
    lines = [line for line in said.splitlines() if "is asked for the state of jobs" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"leaklab: {command} is asked")
