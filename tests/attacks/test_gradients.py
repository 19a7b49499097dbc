"""Per-trial gradients against plain double backward."""

import pytest
import torch
from torch import nn

from leaklab.attacks.matching.gradients import general_gradients, layered_gradients, soft_cross_entropy, trial_gradients
from leaklab.records.streams import stream

ENGINES = [layered_gradients, general_gradients]


def plain(network, images, targets):
    """One trial at a time, by autograd."""
    parameters = [p.requires_grad_() for p in network.parameters()]
    rows = []
    for image, target in zip(images, targets, strict=True):
        loss = soft_cross_entropy(network(image), target).mean()
        rows.append(torch.autograd.grad(loss, parameters, create_graph=True))
    return [torch.stack(column) for column in zip(*rows, strict=True)]


@pytest.fixture(params=[1, 3], ids=["B=1", "B=3"])
def case(request, network_of):
    draws = stream(0, "case", request.param)
    images = draws.normal(4, request.param, 1, 8, 8).requires_grad_()
    targets = torch.softmax(draws.normal(4, request.param, 10), -1).requires_grad_()
    return network_of(), images, targets


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_equal_autograd(case, engine):
    for ours, theirs in zip(engine(*case), plain(*case), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_second_derivatives_equal_autograd(case, engine):
    def second(engine):
        total = sum((g**2).sum() for g in engine(*case))
        return torch.autograd.grad(total, case[1:])

    for ours, theirs in zip(second(engine), second(plain), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_the_fast_engine_is_chosen_where_it_applies():
    assert trial_gradients(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten())) is layered_gradients
    assert trial_gradients(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2))) is general_gradients
    assert trial_gradients(nn.Sequential(nn.LayerNorm(3))) is general_gradients
