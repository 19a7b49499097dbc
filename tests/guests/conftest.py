"""What a guest's network leaves in a process is taken away again, and defenses of known truth can be imported."""

import sys
from pathlib import Path

import pytest

from leaklab.guests.networks import GUEST
from leaklab.records import plugins

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(autouse=True)
def no_network_left():
    yield
    plugins.offers("models").pop(GUEST, None)
