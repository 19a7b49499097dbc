"""Private images for captures."""

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.data.dataset import Dataset


@pytest.fixture(scope="session")
def dataset():
    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.tensor(loaded.target)
    mean, std = torch.tensor([0.3]), torch.tensor([0.4])
    return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], mean, std)
