"""What a wheel brings: people install it somewhere and judge what is theirs, without a checkout."""

import json
import os
import subprocess
import sys
from pathlib import Path

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
        (("probe", "--budget", "15s"), CASE, ["read"]),
        # on a busy machine not all attackers have their turn
        (("try", "--arena", "tiny", "--budget", "10s"), DEFENSE, ["read", "undecided"]),
    ],
    ids=["probe", "try"],
)
def test_the_doors_open_from_a_wheel(installed, command, text, words, tmp_path):
    (tmp_path / "own.py").write_text(text, encoding="utf-8")
    known = {**os.environ, "PYTHONPATH": str(installed), "HOME": str(tmp_path), "LEAKLAB_COMPILER": "off"}
    door, *options = command
    done = subprocess.run(
        [sys.executable, "-m", "leaklab.cli", door, "own.py", *options, "--json"],
        cwd=tmp_path, env=known, capture_output=True, text=True, check=False,
    )  # fmt: skip
    card = json.loads(done.stdout)
    assert (installed / "snakemake_logger_plugin_leaklab/__init__.py").is_file()
    assert card["verdict"] in words, done.stderr[-2000:]
    assert done.returncode == card["status"]


BARE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from leaklab.cli import main
main()
"""


def without_workflow(folder, *words):
    """Call the command where only the packages are that a wheel asks for."""
    text = BARE.format(packages=("snakemake", "snakemake_interface_logger_plugins", "dvc"))
    return subprocess.run([sys.executable, "-c", text, *words], cwd=folder, capture_output=True, text=True, check=False)


def test_judging_and_probing_need_no_package_of_the_workflow(tmp_path):
    (tmp_path / "own.py").write_text(DEFENSE, encoding="utf-8")
    (tmp_path / "case.py").write_text(CASE, encoding="utf-8")
    for words in (("try", "own.py", "--budget", "6s", "--json"), ("probe", "case.py", "--budget", "15s", "--json")):
        done = without_workflow(tmp_path, *words)
        assert json.loads(done.stdout)["verdict"], done.stderr[-2000:]


@pytest.mark.parametrize("words", [("audit",), ("remake",)])
def test_a_command_of_the_workflow_says_what_is_missing(words):
    done = without_workflow(Path.cwd(), *words)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("leaklab: this needs the workflow's packages")
    assert line.endswith("pip install 'leaklab[workflow]'")
