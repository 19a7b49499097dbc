"""Faults of a cluster, all in one campaign on a real Slurm: the same bytes at the end, nothing finished is run again.

Each fault meets a training of its own, which is held still (SIGSTOP) after a checkpoint so that it cannot end before.
A campaign takes minutes, so these tests run only where they are asked for: `make test-slurm`.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.machine,
    pytest.mark.workflow,
    pytest.mark.skipif(
        os.environ.get("LEAKLAB_SLURM_FAULTS") != "1", reason="takes minutes: `make test-slurm` runs it"
    ),
]
TARGET = "results/paper/lrp/table1.csv"
STEP, PREFIX = "leaklab.steps.train_federated", "rule_train_federated_wildcards_"
HELD = ("time", "scancel", "step", "controller")
"""Faults of trainings that are held; two more trainings: one too large for the memory it asks for, one undisturbed."""
TOO_LARGE, TOO_LITTLE = 5, 500
"""Which training asks for too little memory at first, and how much, in MB."""
ROUNDS = 400
CONFIGURATION, PIDS = Path("/etc/slurm/slurm.conf"), Path("/run/local-slurm")
OUTAGE = 75
"""Seconds in which Slurm does not answer: more than five queries, after which the executor would forget its jobs."""


@dataclass
class Campaign:
    """What came of a campaign: what it printed, its Slurm jobs by training, and what had ended before the faults."""

    folder: Path
    said: str = ""
    run_of: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    finished: dict[Path, bytes] = field(default_factory=dict)
    seconds: float = 0.0

    def states(self, fault):
        return [state for _, state, _, _ in self.jobs[self.run_of[fault]]]

    def log(self, fault):
        return (self.folder / f"logs/train/{self.run_of[fault]}.log").read_text()


def six_trainings(cluster):
    """Leave six trainings of one table; the memory that one of them asks for is too small."""
    for path in (cluster.folder / "config/items").glob("*/*.yaml"):
        item = yaml.safe_load(path.read_text(encoding="utf-8"))
        item.get("scales", {}).pop("paper", None)
        if path.match("lrp/table1.yaml"):
            digits = {"dataset": "digits", "partition.shard_size": 25, "model": "mlp", "defense": "lrp"}
            item["scales"]["paper"] = {
                "drop": ["cnn-corners"],
                "set": digits | {"rounds": ROUNDS, "seeds": [1024], "rate": {"grid": [[0.005], [0.01]]}},
                "blocks": {"draws": {"partition.seed": list(range(TOO_LARGE + 1))}},
            }
        path.write_text(yaml.safe_dump(item, allow_unicode=True), encoding="utf-8")
    cluster.edit("config/config.yaml", "checkpoint_seconds: 120", "checkpoint_seconds: 0")
    small = f"return {TOO_LITTLE} if spec.partition.seed == {TOO_LARGE} else 3000"
    cluster.edit("src/leaklab/planning/resources.py", "return 4000", small)


@pytest.fixture(scope="module")
def undisturbed(checkout, tmp_path_factory):
    """The same trainings on this machine, without Slurm."""
    clone = checkout.clone(tmp_path_factory.mktemp("undisturbed") / "leaklab")
    six_trainings(clone)
    clone.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", TARGET, timeout=1800)
    return clone


@pytest.fixture(scope="module")
def campaign(own_slurm, undisturbed, tmp_path_factory):
    """A campaign that met all faults."""
    enforce_memory()
    cluster = undisturbed.clone(tmp_path_factory.mktemp("campaign") / "leaklab")
    six_trainings(cluster)
    found, began = Campaign(cluster.folder), time.monotonic()
    with (cluster.folder / "said.txt").open("w") as said:
        running = subprocess.Popen(
            ["snakemake", "--profile", "slurm", TARGET],
            cwd=cluster.folder, env=cluster.environment(), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            inflict(found, cluster)
            assert running.wait(timeout=1800) == 0, (cluster.folder / "said.txt").read_text()[-3000:]
        finally:
            running.kill()
    found.seconds = time.monotonic() - began
    found.said = (cluster.folder / "said.txt").read_text()
    found.jobs = jobs_of(cluster.folder)
    print(f"\n{found.seconds:.0f} s", found.jobs)
    return found


def inflict(campaign, cluster):
    """Hold four trainings, wait for the undisturbed one, and let each fault happen."""
    jobs = waited(lambda: found if len(found := jobs_of(cluster.folder)) == TOO_LARGE + 1 else None)
    small = next(run for run, first in jobs.items() if first[0][3] == f"{TOO_LITTLE}M")
    *held, last = sorted(set(jobs) - {small})
    campaign.run_of = dict(zip(HELD, held, strict=True)) | {"memory": small, "none": last}
    processes = {fault: hold(cluster, campaign.run_of[fault]) for fault in HELD}
    records = cluster.folder / "results/runs"
    waited((records / "train" / last / "weights.safetensors").is_file, seconds=900)
    campaign.finished = {path: path.read_bytes() for path in records.rglob("*run.json")}
    job = {fault: jobs[run][0][0] for fault, run in campaign.run_of.items()}
    daemons = ["slurmctld", *(["slurmdbd"] if (PIDS / "slurmdbd.pid").exists() else [])]
    with away(*daemons):
        os.kill(processes["controller"], signal.SIGCONT)
        time.sleep(OUTAGE)
    # afterwards, since a controller that is killed has not written down what it was told last
    ask("scontrol", "update", f"JobId={job['time']}", "TimeLimit=1")
    ask("scancel", job["scancel"])
    ask("scancel", "--signal=KILL", f"{job['step']}.0")


def hold(cluster, run):
    """Stop the process of a training after its first checkpoint."""
    folder = cluster.folder / "results/runs/train" / run
    waited((folder / "checkpoint.safetensors").is_file, seconds=900, pause=0.02)
    process = cluster.process(STEP, run)
    os.kill(process, signal.SIGSTOP)
    assert not (folder / "weights.safetensors").exists(), "the training ended before it could be held"
    return process


def jobs_of(folder):
    """Return the Slurm jobs of each training in order: number, state, time limit, memory."""
    found = {}
    for line in ask("squeue", "--states=all", "--noheader", "--format=%k|%i|%T|%l|%m|%Z").splitlines():
        comment, *job, where = line.split("|")
        if comment.startswith(PREFIX) and where == str(folder):
            found.setdefault(comment.removeprefix(PREFIX), []).append(tuple(job))
    return {run: sorted(jobs, key=lambda job: int(job[0])) for run, jobs in found.items()}


def ask(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def tried(*command):
    """Return what a command says where it succeeds, else nothing."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def waited(condition, seconds=600, pause=0.2):
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(pause)
    return found


@contextmanager
def away(*daemons):
    """Kill daemons of Slurm, and start them again at the end."""
    for name in daemons:
        process = int((PIDS / f"{name}.pid").read_text())
        os.kill(process, signal.SIGKILL)
        waited(lambda process=process: not running(process))
    yield
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    for name in reversed(daemons):
        subprocess.run([shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")], check=True, **quiet)
        if name == "slurmdbd":  # a controller that starts before it would not know its cluster
            waited(lambda: tried("sacctmgr", "--noheader", "show", "cluster"))
    waited(lambda: "is UP" in tried("scontrol", "ping"))


def running(process):
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def enforce_memory():
    """Let Slurm kill what takes more memory than it asked for; it samples each second, as there are no cgroups."""
    text = re.sub(r"(?m)^JobAcctGather.*\n", "", CONFIGURATION.read_text())
    lines = ("Type=jobacct_gather/linux", "Frequency=1", "Params=OverMemoryKill")
    CONFIGURATION.write_text(text + "".join(f"JobAcctGather{line}\n" for line in lines))
    with away("slurmd", "slurmctld"):
        pass
    waited(lambda: re.search("idle|mix", ask("sinfo", "--noheader", "--format=%t")))


def minutes(limit):
    hours, least, _ = (["0", *limit.split(":")])[-3:]
    return 60 * int(hours) + int(least)


def test_all_trainings_have_the_bytes_of_undisturbed_ones(campaign, undisturbed):
    for name in ("weights.safetensors", "sweep.parquet"):
        expected = sorted((undisturbed.folder / "results/runs/train").rglob(name))
        assert len(expected) == TOO_LARGE + 1
        for path in expected:
            here = campaign.folder / path.relative_to(undisturbed.folder)
            assert here.read_bytes() == path.read_bytes(), here
    assert (campaign.folder / TARGET).read_bytes() == (undisturbed.folder / TARGET).read_bytes()


def test_nothing_that_was_finished_is_run_again(campaign):
    assert campaign.run_of["none"] in {path.parent.name for path in campaign.finished}
    assert {path: path.read_bytes() for path in campaign.finished} == campaign.finished
    assert campaign.states("none") == ["COMPLETED"]


def test_a_job_at_its_time_limit_goes_on_with_more_time(campaign):
    assert campaign.states("time") == ["TIMEOUT", "COMPLETED"]
    limit, usual = (campaign.jobs[campaign.run_of[fault]][-1][2] for fault in ("time", "none"))
    assert minutes(limit) == 2 * minutes(usual)
    assert "going on from round" in campaign.log("time")


def test_a_job_that_needs_more_memory_is_given_it(campaign):
    *before, last = campaign.jobs[campaign.run_of["memory"]]
    assert before
    assert {state for _, state, _, _ in before} <= {"OUT_OF_MEMORY", "CANCELLED", "FAILED"}
    assert last[1] == "COMPLETED"
    assert [memory for _, _, _, memory in (*before, last)] == [
        f"{TOO_LITTLE * (n + 1)}M" for n in range(len(before) + 1)
    ]


@pytest.mark.parametrize("fault", ["scancel", "step"])
def test_a_killed_job_goes_on_from_its_checkpoint(campaign, fault):
    first, *later = campaign.states(fault)
    assert first == {"scancel": "CANCELLED", "step": "FAILED"}[fault]
    assert later == ["COMPLETED"]
    assert "going on from round" in campaign.log(fault)


def test_a_job_that_ends_while_the_controller_is_away_is_not_run_again(campaign):
    assert campaign.states("controller") == ["COMPLETED"]
    assert "going on" not in campaign.log("controller")
