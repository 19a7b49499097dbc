"""A real Slurm of this machine, with or without an accounting database, and a campaign that ends on it in minutes."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
STARTER = Path(os.environ.get("LEAKLAB_LOCAL_SLURM", ROOT.parent / "shared/tools/local-slurm"))


@pytest.fixture
def slurm(request):
    """A Slurm whose jobs are looked up by ``request.param``: the cluster's own, or one started for the test."""
    if answers("sinfo"):
        if answers("sacct") != (request.param == "sacct"):
            pytest.skip("the Slurm that runs here keeps its accounts otherwise")
        yield request.param
        return
    with started(request.param):
        yield request.param


@pytest.fixture(scope="module", params=["squeue", "sacct"])
def own_slurm(request):
    """A Slurm that may be harmed, without an accounting database and with one."""
    if answers("sinfo"):
        pytest.skip("a Slurm runs here that is not this test's to harm")
    with started(request.param):
        yield request.param


@pytest.fixture(params=[0, 2])
def slurm_with_gpus(request):
    """The number of GPUs that a Slurm is said to have, which is started for the test."""
    if answers("sinfo"):
        pytest.skip("a Slurm runs here that has what it has")
    with started("squeue", request.param):
        yield request.param


@contextmanager
def started(command, gpus=0):
    """Start a Slurm whose jobs are looked up by a command, or skip with the reason; stop it at the end.

    There is nothing behind the GPUs that it is said to have.
    """
    if os.geteuid() != 0:
        pytest.skip("no Slurm here, and starting one needs root")
    if not STARTER.is_file():
        pytest.skip("no Slurm here, and no script that starts one (LEAKLAB_LOCAL_SLURM)")
    settings = {"ACCOUNTING": int(command == "sacct"), "CPUS": 8, "GPUS": gpus}
    done = ask_starter("start", **{f"LOCAL_SLURM_{name}": str(value) for name, value in settings.items()})
    try:
        if done.returncode != 0:
            pytest.skip(f"Slurm could not be started: {done.stdout[-200:]}{done.stderr[-200:]}")
        yield
    finally:
        ask_starter("purge")  # what it knows of jobs too: another test may run in a folder of the same name


def ask_starter(word, **settings):
    # daemons lie where users mostly do not look
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    environment = {**os.environ, "PATH": path, **settings}
    return subprocess.run(
        [STARTER, word], capture_output=True, text=True, timeout=400, check=False, env=environment, cwd="/"
    )


def answers(command):
    return shutil.which(command) is not None and (
        subprocess.run([command], capture_output=True, check=False).returncode == 0
    )


ONE_UPDATE = {"defense": "none", "transform": "none", "draws": 1, "client_weight": 1.0, "images.count": 1,
              "attack": "idlg", "iterations": 20, "restarts": 1}  # fmt: skip
ONE_TRAINING = {"dataset": "digits", "partition.shard_size": 25, "model": "mlp", "defense": "lrp", "rounds": 5,
                "seeds": [1024]}  # fmt: skip
DIGITS = {"dataset": ["digits"], "metrics": ["mse"]}
KEPT = {
    "table1": {"drop": ["draws", "cnn-corners"], "set": ONE_TRAINING},
    "table4": {},
    "figure2": {"set": DIGITS | ONE_UPDATE},
    "algorithm1": None,
}


def shorten(cluster):
    """Leave one job of each rule at the scale of the profile: a job on Slurm costs seconds however short it is."""
    cluster.only(*(f"lrp/{name}" for name in KEPT))
    for path in (cluster.folder / "config/items").glob("*/*.yaml"):
        item = yaml.safe_load(path.read_text(encoding="utf-8"))
        scales = item.get("scales", {})
        scales.pop("paper", None)
        if path.parent.name == "lrp" and path.stem in KEPT:
            scales["paper"] = scales["demo"] if KEPT[path.stem] is None else KEPT[path.stem]
        path.write_text(yaml.safe_dump(item, allow_unicode=True), encoding="utf-8")


@pytest.fixture
def cluster(checkout, tmp_path):
    """A clone whose scale ``paper``, which the profile makes, has one job of each of some rules."""
    clone = checkout.clone(tmp_path / "cluster")
    shorten(clone)
    return clone
