"""A small victim whose attack takes seconds, and its observations made without the federated engine."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F

from leaklab.models.cnns import DLGLeNet
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 10
MODEL = {"name": "dlg-lenet", "settings": {}}


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def digits():
    """Handwritten digits in [0, 1], [N, 1, 8, 8] float64, and their labels."""
    loaded = load_digits()
    return torch.tensor(loaded.images / 16)[:, None], torch.tensor(loaded.target)


@pytest.fixture(scope="session")
def network_of():
    def build(seed=0, dtype=torch.float64):
        return DLGLeNet().initialised(SHAPE, CLASSES, seed, dtype)

    return build


@pytest.fixture(scope="session")
def observe(network_of):
    """Make the observation of trials [T, B, ...] by plain autograd, each update times its factor."""

    def make(images, labels, factors=None, seed=0, kind="gradient", network=None):
        network = network_of(seed, images.dtype) if network is None else network
        updates = []
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            gradients = torch.autograd.grad(F.cross_entropy(network(image), label), list(network.parameters()))
            updates.append([g * (1.0 if factors is None else factors[row]) for g in gradients])
        names = [name for name, _ in network.named_parameters()]
        return Observation(
            weights={name: value.detach() for name, value in network.named_parameters()},
            update=dict(zip(names, (torch.stack(column) for column in zip(*updates, strict=True)), strict=True)),
            kind=kind,
            mode="eval",
            model=MODEL,
            trials=tuple(range(len(images))),
        )

    return make


@pytest.fixture(scope="session")
def knowledge():
    facts = {
        "architecture": MODEL,
        "weights": True,
        "nominal_rate": 0.1,
        "local_steps": 1,
        "batch_size": 1,
        "num_classes": CLASSES,
        "input_shape": list(SHAPE),
        "input_range": [0.0, 1.0],
    }
    return Knowledge("honest-but-curious", facts)


class Waves(Generator):
    """A smooth generator without training: each latent number and each class bends the image its own way."""

    def __init__(self, latent_size, classes):
        super().__init__(latent_size, classes, SHAPE)
        self.register_buffer("mix", stream(0, "mix").normal(latent_size, 64))
        self.register_buffer("shift", stream(0, "shift").normal(classes, 64))

    def forward(self, latents, classes):
        return torch.sigmoid(latents @ self.mix + classes @ self.shift).view(-1, *SHAPE)


@pytest.fixture(scope="session")
def waves():
    """Make a frozen float64 generator of images of 8x8."""

    def make(latent_size=4, classes=CLASSES):
        return Waves(latent_size, classes).double().frozen()

    return make
