"""What the tests of laws by ranks share."""

from math import exp

import numpy as np
import pytest
from scipy import optimize

from leaklab.records.streams import stream

SHAPES = {"conv.weight": (5, 2, 9), "conv.bias": (10,), "fc.weight": (20, 30)}


@pytest.fixture(scope="module")
def weights():
    """Broadcast weights whose variance differs from tensor to tensor."""
    return {
        name: (1 + place) * stream(7, name).normal(*shape) / 5 for place, (name, shape) in enumerate(SHAPES.items())
    }


@pytest.fixture(scope="module")
def soft_share():
    """A function that returns the probabilities to be among the ``number`` largest, by a root finder."""

    def found(sizes, number, width):
        def shares(u):
            return np.array([1 / (1 + exp(-(size * exp(u) - 1) / (2 * width))) for size in sizes])

        return shares(optimize.brentq(lambda u: shares(u).sum() - number, -20, 4, xtol=1e-14))

    return found
