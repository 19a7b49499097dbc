"""Residual networks taken apart: structure found from the network, maps with certificates, near misses, pictures."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet18

from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.closing import Closing
from leaklab.attacks.residual.fits import Equations, settled
from leaklab.attacks.residual.peeling import peeled
from leaklab.attacks.residual.picture import Frontier, behind
from leaklab.attacks.residual.structure import Structure
from leaklab.metrics.pixel import EXACT_DB
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

CLASSES, LABEL = 10, 3
ROUNDING = {torch.float64: 1e-12, torch.float32: 2.4e-7}


class Block(nn.Module):
    """A residual block of any kernels; with ``before`` normalised and cut before its convolutions."""

    def __init__(self, channels, made, kernel=3, stride=1, before=False):
        super().__init__()
        pads = tuple(size // 2 for size in nn.modules.utils._pair(kernel))
        self.first = nn.Conv2d(channels, made, kernel, stride, pads, bias=False)
        self.second = nn.Conv2d(made, made, kernel, 1, pads)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels if before else made), nn.BatchNorm2d(made)])
        short = nn.Sequential(nn.Conv2d(channels, made, 1, stride, bias=False), nn.BatchNorm2d(made))
        self.short, self.before = (nn.Identity() if channels == made else short), before

    def forward(self, x):
        if self.before:
            return self.short(x) + self.second(F.relu(self.norms[1](self.first(F.relu(self.norms[0](x))))))
        inner = F.relu(self.norms[0](self.first(x)), inplace=True)
        inner = self.norms[1](self.second(inner))
        inner += self.short(x)
        return torch.relu_(inner)


def stem(channels, made, kernel, stride, pool=None):
    pads = tuple(size // 2 for size in nn.modules.utils._pair(kernel))
    layers = [nn.Conv2d(channels, made, kernel, stride, pads, bias=False), nn.BatchNorm2d(made), nn.ReLU(inplace=True)]
    return [*layers, *([] if pool is None else [pool])]


def mean():
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


FORMS = {
    "house": ((1, 20, 20), lambda: SmallResNet().build((1, 20, 20), CLASSES), 3),
    "torchvision, 28x28": ((1, 28, 28), lambda: gray(resnet18(num_classes=CLASSES)), 17),
    "torchvision, 32x32": ((3, 32, 32), lambda: resnet18(num_classes=CLASSES), 17),
    "oblong kernels, strided": (
        (3, 12, 12),
        lambda: nn.Sequential(
            *stem(3, 24, (5, 3), 2), Block(24, 24, (5, 3)), Block(24, 40, 5, 2), *mean(), nn.Linear(40, CLASSES)
        ),
        4,
    ),
    "flat head behind pooling": (
        (1, 16, 16),
        lambda: nn.Sequential(
            *stem(1, 24, 5, 1, nn.MaxPool2d(2)), Block(24, 24, 5), nn.Dropout(0.5), nn.Flatten(),
            nn.Linear(24 * 64, CLASSES),
        ),
        3,
    ),
    "cut before convolutions": (
        (1, 12, 12),
        lambda: nn.Sequential(
            nn.Conv2d(1, 32, 3, 2, 1), Block(32, 32, before=True), Block(32, 32, before=True), nn.BatchNorm2d(32),
            nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, CLASSES),
        ),
        5,
    ),
}  # fmt: skip
"""Shape of a picture, network, and how many maps close."""


def gray(network):
    network.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    return network


def moved(network, seed=0):
    """Return it with drawn weights and with statistics as of training."""
    draws = stream(seed, "network")
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.copy_(0.2 * draws.normal(layer.num_features))
                layer.running_var.copy_(0.5 + draws.uniform(layer.num_features))
                layer.weight.copy_(0.7 + 0.6 * draws.uniform(layer.num_features))
                layer.bias.copy_(0.1 * draws.normal(layer.num_features))
            elif isinstance(layer, nn.Conv2d | nn.Linear):
                size = (2 / layer.weight[0].numel()) ** 0.5
                layer.weight.copy_(size * draws.normal(*layer.weight.shape))
                if layer.bias is not None:
                    layer.bias.copy_(0.1 * draws.normal(*layer.bias.shape))
    return network.eval()


def sent(network, images, labels, dtype=torch.float64):
    """Return the gradient of a batch by name, made in a type, and the rounding of its entries."""
    own = network.to(dtype).requires_grad_()
    made = torch.autograd.grad(F.cross_entropy(own(images.to(dtype)), labels), list(own.parameters()))
    named = {name: one.double() for (name, _), one in zip(own.named_parameters(), made, strict=True)}
    return named, {name: ROUNDING[dtype] * float(one.square().mean().sqrt()) for name, one in named.items()}


def picture_of(shape, seed=1):
    return stream(seed, "picture").uniform(1, *shape).double()


def truths(structure, picture):
    return structure.operations.values([one.name for one in structure.bends], {structure.picture: picture})


def read_of(form, dtype=torch.float32, factor=1.0):
    shape, build, _ = FORMS[form]
    network, picture = moved(build()), picture_of(shape)
    gradients, noise = sent(network, picture, torch.tensor([LABEL]), dtype)
    structure = Structure(network.double(), shape, "the test")
    scaled = {name: factor * one for name, one in gradients.items()}
    found = peeled(structure, scaled, {name: factor * one for name, one in noise.items()})
    return found, truths(structure, picture), scaled


def wrong_of(found, truth):
    """Return names of maps that are said to be proven and are not what the network made."""
    return [
        name
        for name, one in found.maps.items()
        if one.proven and float((one.values - truth[name][0]).norm()) > 1e-3 * float(truth[name].norm())
    ]


@pytest.mark.parametrize("form", FORMS)
def test_every_map_that_closes_is_what_the_network_made(form):
    found, truth, _ = read_of(form)
    assert len(found.maps) >= FORMS[form][2]
    assert all(one.proven for one in found.maps.values())
    for name, one in found.maps.items():
        assert float((one.values - truth[name][0]).abs().max()) < 1e-3 * float(truth[name].max())


@pytest.mark.parametrize("form", FORMS)
def test_the_equations_hold_at_the_truth(form):
    """A convolution's gradient is the product of its errors and its input, whatever its geometry."""
    shape, build, _ = FORMS[form]
    network, picture = moved(build()).double(), picture_of(shape)
    gradients, _ = sent(network, picture, torch.tensor([LABEL]))
    structure = Structure(network, shape, "the test")
    names = [one.node for one in structure.readers]
    values = structure.operations.values([*names, structure.logits], {structure.picture: picture.requires_grad_()})
    loss = F.cross_entropy(values[structure.logits], torch.tensor([LABEL]))
    errors = torch.autograd.grad(loss, [values[name] for name in names])
    assert len(names) >= 3
    for reader, own in zip(structure.readers, errors, strict=True):
        gradient = gradients[f"{reader.name}.weight"]
        equations = Equations(reader, gradient, 1e-12, own[0], None, None)
        given = values[reader.given][0]
        made = equations.rows((given.shape[1], given.shape[2])) @ given.detach().flatten(1).T
        assert float((made - equations.target).norm()) < 1e-9 * float(gradient.norm())


def test_a_hidden_factor_changes_no_map():
    plain, scaled = (read_of("house", torch.float64, factor)[0] for factor in (1.0, 0.03))
    assert plain.maps.keys() == scaled.maps.keys()
    for name, one in plain.maps.items():
        assert float((one.values - scaled.maps[name].values).abs().max()) < 1e-6 * float(one.values.max())


def test_a_cell_that_was_wrongly_on_is_set_right():
    found, truth, gradients = read_of("house", torch.float64)
    reader = next(one for one in found.structure.readers if one.name == "layer3.0.conv2")
    bend, on = reader.bend.name, truth[reader.bend.name][0] > 0
    doubts, wrong = torch.zeros_like(on), on.clone()
    for cell in ((2, 1, 1), (5, 3, 0), (40, 2, 2)):
        doubts[cell], wrong[cell] = True, ~on[cell]
    doubts[7] = True
    gradient = gradients[f"{reader.name}.weight"]
    equations = Equations(reader, gradient, 1e-12, found.errors[bend] * reader.gain, wrong, doubts)
    fit = settled([equations], (5, 5))
    assert fit.flips == 3
    assert torch.equal(fit.equations[0].on, on)
    assert fit.residual < 1e-9
    blind = settled([Equations(reader, gradient, 1e-12, found.errors[bend] * reader.gain, wrong, None)], (5, 5))
    assert blind.residual > 1e-3


@pytest.mark.parametrize("form", ["house", "torchvision, 28x28", "flat head behind pooling"])
@pytest.mark.parametrize("miss", ["weights", "two images", "noise", "train", "zero"])
def test_a_near_miss_proves_nothing_false(form, miss):
    """What the client really did is not what is believed: no certificate may speak for a map that nobody saw."""
    shape, build, _ = FORMS[form]
    network, picture = moved(build()), picture_of(shape)
    labels = torch.tensor([LABEL])
    structure = Structure(network.double(), shape, "the test")
    truth = truths(structure, picture)
    if miss == "weights":
        network = moved(build(), seed=1)
        truth = truths(Structure(network.double(), shape, "the test"), picture)
    if miss == "two images":
        picture, labels = torch.cat([picture, picture_of(shape, 2)]), torch.tensor([LABEL, LABEL + 1])
    if miss == "train":
        network, truth = of_a_batch(network), None
    gradients, noise = sent(network, picture, labels, torch.float32)
    if miss == "noise":
        draws = stream(0, "noise")
        gradients = {
            name: one + (0.0 if name.startswith(structure.head) else 1e-4) * one.std() * draws.normal(*one.shape)
            for name, one in gradients.items()
        }
    if miss == "zero":
        gradients = {name: torch.zeros_like(one) for name, one in gradients.items()}
    if miss in ("two images", "zero"):
        with pytest.raises(UserError, match=r"not that of one sample|is zero"):
            peeled(structure, gradients, noise)
        return
    found = peeled(structure, gradients, noise)
    # the head's input is what the head saw, whatever came before
    proven = {name for name, one in found.maps.items() if one.proven and one.layers != (structure.head,)}
    if truth is None:
        assert not proven
    else:
        assert not wrong_of(found, truth)
        assert len(proven) < FORMS[form][2] - 1


def of_a_batch(network):
    """Return a network that normalises by what it is given, as in training, also of a single cell."""
    network.train()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.forward = lambda x, own=layer: (
                (x - x.mean((0, 2, 3), keepdim=True)) / (x.var((0, 2, 3), keepdim=True, unbiased=False) + 0.1).sqrt()
                * own.weight[:, None, None] + own.bias[:, None, None]
            )  # fmt: skip
        if isinstance(layer, nn.Dropout):
            layer.eval()
    return network


class Looks(nn.Module):
    """Looks at its values."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.Sigmoid(), "'3' is none of these"),
        (nn.LeakyReLU(), "'3' is none of these"),
        (nn.ReLU6(), "'3' is none of these"),
        (nn.GroupNorm(2, 4), "'3' is none of these"),
        (Looks(), "torch.fx can trace"),
        (nn.Linear(8, 8), None),
    ],
    ids=str,
)
def test_what_cannot_be_peeled_is_named_in_one_line(layer, said):
    network = nn.Sequential(
        *stem(1, 4, 3, 1)[:2], nn.Identity(), layer, nn.ReLU(), nn.Flatten(), nn.Linear(256, CLASSES)
    )
    if said is None:
        assert Structure(network, (1, 8, 8), "the test").readers
        return
    with pytest.raises(UserError, match=said) as refusal:
        Structure(network, (1, 8, 8), "the test")
    assert "\n" not in str(refusal.value)


def test_a_head_without_a_bias_is_refused():
    network = nn.Sequential(*stem(1, 4, 3, 1), nn.Flatten(), nn.Linear(256, CLASSES, bias=False))
    with pytest.raises(UserError, match="an affine layer with a bias at the end"):
        Structure(network, (1, 8, 8), "the test")


def test_means_of_more_places_than_filters_tell_nothing_and_say_so():
    network = moved(nn.Sequential(*stem(1, 8, 3, 1), Block(8, 8), *mean(), nn.Linear(8, CLASSES)))
    gradients, noise = sent(network, picture_of((1, 12, 12)), torch.tensor([LABEL]))
    found = peeled(Structure(network, (1, 12, 12), "the test"), gradients, noise)
    assert not found.maps
    assert "12x12 places apart" in found.why


@pytest.fixture(scope="module")
def prior(digits):
    images = F.interpolate(digits[0], (20, 20), mode="bilinear").clamp(0, 1)
    given = ClassGaussian().fitted(images[:1000], digits[1][:1000], CLASSES)

    def of(label):
        mean, factor = given.mean[label].detach().double(), given.factor_of(label).detach().double()
        return GaussianPrior(mean, factor, torch.zeros_like(mean), torch.ones_like(mean))

    return of, images[1000:], digits[1][1000:]


@pytest.mark.parametrize("number", [0, 1])
def test_the_picture_behind_the_maps_is_exact_and_certified(prior, number):
    of, images, labels = prior
    image, label = images[number : number + 1], labels[number : number + 1]
    network = SmallResNet().initialised((1, 20, 20), CLASSES, number, torch.float64).eval()
    gradients, noise = sent(network, image, label, torch.float32)
    found = peeled(Structure(network.double(), (1, 20, 20), "the test"), gradients, noise)
    frontier = Frontier(found)
    assert frontier.bends
    rough = behind(frontier, of(int(label)))
    closed = Closing(frontier, of(int(label)), gradients, noise).closed(rough)
    assert closed.certified
    assert -10 * float((closed.picture - image).square().mean().log10()) > EXACT_DB
    # a picture beside it is not
    aside = Closing(frontier, of(int(label)), gradients, noise)
    assert aside.worst(image + 1e-2 * stream(0, "aside").normal(*image.shape)) > 1e-3
