"""What a wheel brings: people install it somewhere and judge what is theirs, without a checkout."""

import json
import os
import subprocess
import sys

import pytest

CASE = """
import torch
from torch import nn
import leaklab

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10))
client = leaklab.Client(model, loss=nn.CrossEntropyLoss(), rate=0.1)
inputs, targets = torch.rand(2, 1, 4, 4), torch.tensor([3, 5])
"""
DEFENSE = """
def defend(gradients):
    return {name: value / 2 for name, value in gradients.items()}
"""


@pytest.fixture(scope="module")
def installed(checkout, tmp_path_factory):
    """Return a folder with leaklab installed from a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    clone = checkout.clone(folder / "clone")
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    clone.must(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), ".")
    (wheel,) = folder.glob("leaklab-*.whl")
    clone.must(*pip, "install", "--no-deps", "--target", str(folder / "installed"), str(wheel))
    assert clone.must("git", "status", "--short") == ""
    return folder / "installed"


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        (("probe", "--budget", "6s"), CASE, ["read"]),
        # on a busy machine not all attackers have their turn
        (("try", "--arena", "tiny", "--budget", "10s"), DEFENSE, ["read", "undecided"]),
    ],
    ids=["probe", "try"],
)
def test_the_doors_open_from_a_wheel(installed, command, text, words, tmp_path):
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    known = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path)}
    door, *options = command
    done = subprocess.run(
        [sys.executable, "-m", "leaklab.cli", door, "own.py", *options, "--json"],
        cwd=tmp_path, env=known, capture_output=True, text=True, check=False,
    )  # fmt: skip
    card = json.loads(done.stdout)
    assert (installed / "snakemake_logger_plugin_leaklab/__init__.py").is_file()
    assert card["verdict"] in words, done.stderr[-2000:]
    assert done.returncode == card["status"]
