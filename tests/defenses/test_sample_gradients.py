"""Each sample's gradient equals that of a backward pass of its own, with formulas for the layers and without."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.defenses.per_sample import sample_gradients
from leaklab.models.affine import MultilayerPerceptron
from leaklab.models.cnns import DLGLeNet, SmallCNN
from leaklab.models.resnets import SmallResNet
from leaklab.records.streams import stream

MODELS = {
    "strides": (DLGLeNet(), (3, 9, 9)),
    "images that are not square": (DLGLeNet(n_conv=3), (2, 6, 11)),
    "pooling and dropout": (SmallCNN(), (1, 28, 28)),
    "affine": (MultilayerPerceptron(hidden=20), (1, 8, 8)),
    "residual": (SmallResNet(width=4), (1, 8, 8)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_rows_are_the_gradients_of_single_samples(kind):
    model, shape = MODELS[kind]
    network = model.initialised(shape, 5, 1, torch.float64).eval()
    draws = stream(0, "samples")
    batch = {"images": draws.normal(3, *shape), "labels": draws.integers(0, 5, 3)}
    names = [name for name, _ in network.named_parameters()][::-1]
    found = sample_gradients(network, batch, names)
    rows = torch.cat([found[name] for name in names], 1)
    for row, image, label in zip(rows, batch["images"], batch["labels"], strict=True):
        loss = F.cross_entropy(network(image[None]), label[None])
        own = torch.autograd.grad(loss, [network.get_parameter(name) for name in names])
        torch.testing.assert_close(row, torch.cat([one.flatten() for one in own]), rtol=1e-9, atol=1e-12)
    assert not rows.requires_grad
    assert all(parameter.grad is None for parameter in network.parameters())


def test_some_parameters_may_be_asked_for_alone():
    for model, shape in MODELS.values():
        network = model.initialised(shape, 5, 1, torch.float64).eval()
        batch = {"images": stream(0, "samples").normal(2, *shape), "labels": torch.tensor([0, 3])}
        names = [name for name, _ in network.named_parameters()]
        every, last = (sample_gradients(network, batch, asked) for asked in (names, names[-2:]))
        assert list(last) == names[-2:]
        for name, value in last.items():
            torch.testing.assert_close(value, every[name])
