"""Products of gradients in deep networks against plain double backward, one trial at a time, in float64."""

import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from leaklab.attacks.matching import module_gradients
from leaklab.attacks.matching.gradients import soft_cross_entropy
from leaklab.attacks.matching.module_gradients import gradient_products, reason_against
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, TRIALS = (3, 8, 8), 5, 3


class Tokens(nn.Module):
    """Pixels as tokens through a linear layer, and a second use of the input."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(3, 6), nn.Linear(6, CLASSES, bias=False)

    def forward(self, values):
        return self.head(torch.tanh(self.embed(values.flatten(2).transpose(1, 2))).mean(1))


def randomised(network, seed=0):
    """Fill parameters and running statistics with draws, in evaluation state and float64."""
    network = network.double().eval().requires_grad_(requires_grad=False)
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            draw = stream(seed, name).normal(*value.shape)
            scale = value[0].numel() ** -0.5 if value.dim() > 1 else 0.3
            value.copy_(1 + draw.abs() / 3 if name.endswith("running_var") else draw * scale)
    return network


def small_resnet():
    return randomised(SmallResNet(blocks=1, width=4).build(SHAPE, CLASSES))


def tiny_resnet():
    """torchvision's own blocks: in-place ReLU and +=, strides, 1x1 shortcuts, a pool."""
    network = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)
    network.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=2, dilation=2, bias=True)
    network.layer3, network.layer4 = nn.Identity(), nn.Identity()
    network.fc = nn.Linear(128, CLASSES)
    return randomised(network)


NETWORKS = {"resnet-small": small_resnet, "tiny-resnet": tiny_resnet, "tokens": lambda: randomised(Tokens())}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request):
    return NETWORKS[request.param]()


@pytest.fixture(scope="module", params=[1, 4], ids=["B=1", "B=4"])
def case(request, network):
    draws = stream(0, "case", request.param)
    images = draws.normal(TRIALS, request.param, *SHAPE).requires_grad_()
    targets = torch.softmax(draws.normal(TRIALS, request.param, CLASSES), -1)
    against = [draws.normal(TRIALS, *parameter.shape) for parameter in network.parameters()]
    return network, images, targets, against


def plain_products(network, images, targets, against):
    """One trial at a time, by autograd."""
    parameters = [parameter.requires_grad_() for parameter in network.parameters()]
    rows = []
    for trial, (image, target) in enumerate(zip(images, targets, strict=True)):
        loss = soft_cross_entropy(network(image), target).mean()
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        inner = sum((g * t[trial]).sum() for g, t in zip(gradients, against, strict=True))
        rows.append((inner, sum((g * g).sum() for g in gradients)))
    network.requires_grad_(requires_grad=False)
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def force(monkeypatch, ghost):
    if ghost is not None:
        monkeypatch.setattr(module_gradients, "_ghost_is_cheaper", lambda *sizes: ghost)


def close(ours, theirs):
    return torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9 * float(theirs.detach().abs().max()))


@pytest.mark.parametrize("ghost", [None, True, False], ids=["cheaper", "ghost", "formed"])
def test_products_and_their_derivatives_equal_double_backward(monkeypatch, case, ghost):
    force(monkeypatch, ghost)

    def cosine(products):
        inner, norm = products
        return 1 - inner / norm.sqrt()

    ours, theirs = gradient_products(*case), plain_products(*case)
    for one, other in zip(ours, theirs, strict=True):
        assert close(one, other)
    slopes = [torch.autograd.grad(cosine(products).sum(), case[1])[0] for products in (ours, theirs)]
    assert close(*slopes)
    assert slopes[0].abs().max() > 1e-3


def test_both_ways_are_taken_in_a_residual_network(monkeypatch):
    network, images = tiny_resnet(), stream(0).normal(1, 1, *SHAPE)
    taken = set()
    cheaper = module_gradients._ghost_is_cheaper

    def record(*sizes):
        taken.add(cheaper(*sizes))
        return cheaper(*sizes)

    monkeypatch.setattr(module_gradients, "_ghost_is_cheaper", record)
    gradient_products(network, images, torch.eye(CLASSES).double()[:1, None], [p[None] for p in network.parameters()])
    assert taken == {True, False}


def test_a_trial_does_not_depend_on_its_neighbours(case):
    network, images, targets, against = case
    together = gradient_products(network, images, targets, against)
    alone = gradient_products(network, images[1:2], targets[1:2], [value[1:2] for value in against])
    for many, one in zip(together, alone, strict=True):
        assert torch.allclose(many[1], one[0], rtol=1e-12, atol=0)


def test_the_network_is_left_as_it_was(case):
    network, images, targets, against = case
    before = {name: value.clone() for name, value in network.state_dict().items()}
    gradient_products(*case)
    with pytest.raises(RuntimeError):  # the samples do not fit the first layer
        gradient_products(network, images[:, :, :2], targets, against)
    assert not any(layer._forward_hooks for layer in network.modules())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_plain_images_need_no_graph_of_the_caller(case):
    network, images, targets, against = case
    with torch.no_grad():
        detached = gradient_products(network, images.detach(), targets, against)
    assert torch.equal(detached[1], gradient_products(*case)[1])


class Twice(nn.Module):
    """A layer called twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, values):
        return self.layer(self.layer(values)).mean((2, 3))


class Unused(Twice):
    """A layer that is never called."""

    def forward(self, values):
        return values.mean((2, 3))


class Overwritten(Twice):
    """A layer whose input is changed afterwards."""

    def forward(self, values):
        values = values * 1
        answer = self.layer(values)
        values.relu_()
        return answer.mean((2, 3))


class Folded(Twice):
    """A layer that sees rows that are not samples."""

    def forward(self, values):
        return self.layer(values.view(-1, 3, 4, 8)).view(len(values), 3, 8, 8).mean((2, 3))


@pytest.mark.parametrize(
    ("kind", "word"),
    [(Twice, "more than once"), (Unused, "never called"), (Overwritten, "in place"), (Folded, "one row per sample")],
)
def test_uses_that_have_no_formula_are_refused(kind, word):
    network = randomised(kind())
    images, targets = stream(0).normal(2, 1, *SHAPE), torch.ones(2, 1, 3).double()
    with pytest.raises(UserError, match=word):
        gradient_products(network, images, targets, [torch.zeros(2, *p.shape) for p in network.parameters()])


class Shifted(nn.Linear):
    """A layer that computes something else than its class says."""

    def forward(self, values):
        return super().forward(values) + self.weight.sum()


def tied():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    return nn.Sequential(first, second)


@pytest.mark.parametrize(
    ("network", "word"),
    [
        (nn.Sequential(nn.Conv2d(4, 4, 1, groups=2)), "'0' is a Conv2d"),
        (nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")), "'0' is a Conv2d"),
        (nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), "'1' is a LayerNorm"),
        (nn.Sequential(nn.BatchNorm2d(2)).train(), "by the batch"),
        (nn.Sequential(nn.BatchNorm2d(2, track_running_stats=False)).eval(), "by the batch"),
        (nn.Sequential(nn.BatchNorm2d(2, affine=False)).train(), "by the batch"),
        (nn.Sequential(nn.Dropout(0.5)).train(), "at random"),
        (tied(), "share"),
        (nn.Sequential(Shifted(2, 2)), "'0' is a Shifted"),
    ],
)
def test_layers_that_have_no_formula_are_named(network, word):
    assert word in reason_against(network)
    with pytest.raises(UserError, match=word):
        gradient_products(network, torch.zeros(1, 1, 4, 2, 2), torch.zeros(1, 1, 2), [])


def test_other_layers_do_not_matter():
    network = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1), nn.Dropout(0.5), nn.MaxPool2d(2), nn.Flatten())
    assert reason_against(network.eval()) is None
