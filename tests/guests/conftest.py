"""What a guest's network leaves in a process is taken away again, and defenses of known truth can be imported."""

import sys
from pathlib import Path

import pytest
import yaml

from leaklab.guests import arenas
from leaklab.guests.networks import GUEST
from leaklab.records import plugins

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


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
