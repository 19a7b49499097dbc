"""A network behind a normalisation, and the way back from what its layers see."""

import torch
from torch import nn

from leaklab.models.normalisation import normalised, unnormalised

MEAN, STD = [0.1, 0.5], [0.3, 0.2]


def test_the_layers_see_what_was_asked_for():
    network = normalised(nn.Sequential(nn.Flatten()), MEAN, STD)
    wanted = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(network(unnormalised(network, wanted)), wanted.flatten(1), rtol=0, atol=1e-14)


def test_without_a_normalisation_inputs_are_images():
    inputs = torch.ones(1, 2, 4, 4)
    assert unnormalised(nn.Sequential(nn.Flatten()), inputs) is inputs
