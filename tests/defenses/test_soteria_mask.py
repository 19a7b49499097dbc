"""F11: the mask equals that of one backward pass per feature and sample, and dead features do not disable it."""

from math import floor, inf

import pytest
import torch
from torch import nn

from leaklab.defenses.soteria import sensitivity_ratios, soteria_mask
from leaklab.models.affine import MultilayerPerceptron
from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import ResNet18, SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MODELS = {
    "mlp": (MultilayerPerceptron(hidden=20), "fc2"),
    "dlg-lenet": (DLGLeNet(n_conv=3), "fc"),
    "resnet-small": (SmallResNet(width=4), "fc"),
}
BATCH, SHAPE = 2, (2, 8, 8)


@pytest.fixture(params=MODELS)
def victim(request):
    model, layer = MODELS[request.param]
    network = model.initialised(SHAPE, 5, 3, torch.float64).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            draws = stream(0, "running statistics")
            module.running_mean.copy_(draws.normal(module.num_features))
            module.running_var.copy_(0.5 + draws.uniform(module.num_features))
    return network, layer, stream(1, "images").normal(BATCH, *SHAPE)


def features_of(network, layer):
    names = [name for name, _ in network.named_children()]
    return network[: names.index(layer)]


def brute_force(features_of, images):
    """One sample and one feature at a time, with the rules for r_i = 0 written out."""
    ratios = []
    for feature in range(features_of(images).shape[1]):
        total, dead = 0.0, True
        for image in images:
            image = image[None].clone().requires_grad_()
            value = features_of(image)[0, feature]
            length = float(torch.autograd.grad(value, image)[0].norm())
            value = value.detach()
            if float(value) == 0:
                total += inf if length > 0 else 0.0
                dead &= length == 0
            else:
                total += length / abs(float(value))
                dead = False
        ratios.append(inf if dead else total)
    return torch.tensor(ratios, dtype=torch.float64)


def test_ratios_equal_one_backward_pass_per_feature_and_sample(victim):
    network, layer, images = victim
    expected = brute_force(features_of(network, layer), images)
    assert torch.allclose(sensitivity_ratios(features_of(network, layer), images), expected, rtol=1e-10)


@pytest.mark.parametrize("pruned", [0.25, 0.5, 0.8])
def test_the_smallest_ratios_are_pruned_and_no_others(victim, pruned):
    network, layer, images = victim
    mask = soteria_mask(network, images, layer, pruned)
    ratios = brute_force(features_of(network, layer), images)
    assert mask.dtype == torch.bool
    assert int(mask.sum()) == floor(pruned * len(ratios))
    assert ratios[mask].max() <= ratios[~mask].min()


def test_dead_features_rank_last_and_do_not_switch_the_mask_off():
    """A quarter of the ReLU units never fires: 0 / 0 in every sample."""
    network = MultilayerPerceptron(hidden=20).initialised(SHAPE, 5, 3, torch.float64).eval()
    images = stream(1, "images").normal(BATCH, *SHAPE)
    dead = torch.tensor([0, 3, 4, 11, 19])
    network.fc1.bias.data[dead] = -1e3
    network.fc1.bias.data[7] = 1e3
    ratios = sensitivity_ratios(features_of(network, "fc2"), images)
    assert not ratios.isnan().any()
    assert torch.allclose(ratios, brute_force(features_of(network, "fc2"), images), rtol=1e-10)
    assert ratios[dead].isinf().all()
    mask = soteria_mask(network, images, "fc2", 0.5)
    assert int(mask.sum()) == 10
    assert mask[7]
    assert not mask[dead].any()
    assert int(soteria_mask(network, images, "fc2", 0.9).sum()) == 18


def test_signs_zeros_and_silent_samples():
    """Features x, -2x, x - 1, relu(x), 0 and 5 of one pixel, at the pixels 1 and -1."""

    def features(images):
        x = images.flatten(1)
        return torch.cat([x, -2 * x, x - 1, x.relu(), 0 * x, 5 + 0 * x], 1)

    ratios = sensitivity_ratios(features, torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
    assert ratios.tolist() == [2.0, 2.0, inf, 1.0, inf, 0.0]


def test_the_chunk_is_a_matter_of_memory_only(victim):
    network, layer, images = victim
    front = features_of(network, layer)
    wide = sensitivity_ratios(front, images)
    for together in (1, 7):
        assert torch.allclose(sensitivity_ratios(front, images, together), wide, rtol=1e-12)


def test_nothing_is_touched(victim):
    network, layer, images = victim
    before, state = images.clone(), {name: value.clone() for name, value in network.state_dict().items()}
    mask = soteria_mask(network, images, layer, 0.5)
    assert torch.equal(images, before)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert not mask.requires_grad


def test_a_large_residual_network_works():
    network = ResNet18().initialised((3, 8, 8), 4, 0).eval()
    images = stream(0, "images").normal(1, 3, 8, 8).float()
    mask = soteria_mask(network, images, "fc", 0.8)
    assert (int(mask.sum()), len(mask)) == (409, 512)


@pytest.mark.parametrize(
    ("layer", "pruned", "message"),
    [
        ("fc", 0.5, "no affine layer 'fc': choose from fc1, fc2"),
        ("relu1", 0.5, "choose from fc1, fc2"),
        ("fc2", 0.0, "pruned must be a number above 0"),
        ("fc2", 1.0, "pruned must be a number above 0"),
        ("fc2", 0.01, "0.01 of 20 features is none"),
    ],
)
def test_bad_input_is_refused(layer, pruned, message):
    network = MultilayerPerceptron(hidden=20).initialised(SHAPE, 5, 3).eval()
    with pytest.raises(UserError, match=message):
        soteria_mask(network, torch.zeros(1, *SHAPE), layer, pruned)


def test_training_state_is_refused():
    network = SmallResNet(width=4).initialised(SHAPE, 5, 3)
    with pytest.raises(UserError, match="evaluation state"):
        soteria_mask(network, torch.zeros(1, *SHAPE), "fc", 0.5)
