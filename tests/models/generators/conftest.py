"""Real digits of 8x8 pixels: small enough to train a generator within seconds."""

from functools import partial

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.models.generators.training import GanTraining, train_generator
from leaklab.records.streams import stream

CLASSES = 10
SMALL = ConditionalGan(latent_size=16, embedding=8, width=16)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def digits():
    """Images [N, 1, 8, 8] float32 in [0, 1], and their labels."""
    loaded = load_digits()
    return torch.tensor(loaded.images / 16, dtype=torch.float32)[:, None], torch.tensor(loaded.target)


@pytest.fixture(scope="session")
def train(digits):
    def run(steps, seed=0, progress=None, **settings):
        streams = partial(stream, seed, "generator")
        return train_generator(*digits, CLASSES, SMALL, GanTraining(steps, **settings), streams, progress)

    return run
