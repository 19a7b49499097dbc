"""A client in the middle of a round."""

import pytest

from leaklab.defenses.base import ClientContext


@pytest.fixture
def context():
    return ClientContext(scaled_rate=0.02, seed=1, client=3, round=7, num_classes=4, mean_num_classes=2.5)
