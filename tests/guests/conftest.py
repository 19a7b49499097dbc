"""What a guest's network leaves in a process is taken away again, and defenses of known truth can be imported."""

import sys
from pathlib import Path

import pytest
import yaml

from leaklab.guests import arenas
from leaklab.guests.networks import GUEST
from leaklab.records import plugins

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


COMPRESSION = """
import torch

def defend(gradients):
    def kept(value):
        least = value.abs().flatten().kthvalue(int(0.9 * value.numel()) + 1).values
        return torch.where(value.abs() < least, 0.0, value)
    return {name: kept(value) for name, value in gradients.items()}
"""


@pytest.fixture
def compressing(tmp_path):
    """A file that keeps a tenth of each tensor, the largest entries."""
    file = tmp_path / "mine.py"
    file.write_text(COMPRESSION)
    return file


@pytest.fixture
def shorter(tmp_path):
    """Make an arena of digits that is like the default and costs less, and return its file."""

    def make(**changes):
        content = yaml.safe_load((arenas.FILES / "tiny.yaml").read_text(encoding="utf-8"))
        file = tmp_path / "shorter.yaml"
        file.write_text(yaml.safe_dump({**content, "price": None, **changes}))
        return str(file)

    return make


@pytest.fixture(autouse=True)
def no_network_left():
    yield
    plugins.offers("models").pop(GUEST, None)
