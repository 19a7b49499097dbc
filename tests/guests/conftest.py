"""What a guest's network leaves in a process, which is a child of its own elsewhere, is taken away again."""

import pytest

from leaklab.guests.networks import GUEST
from leaklab.records import plugins


@pytest.fixture(autouse=True)
def no_network_left():
    yield
    plugins.offers("models").pop(GUEST, None)
