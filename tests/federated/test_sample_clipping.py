"""Clipping per sample gives what a loop over single samples does, in every form of a network."""

from collections import OrderedDict
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms.clipping import clipped_gradients, has_formulas
from leaklab.federated.forms.dense import DenseNetwork
from leaklab.federated.forms.network import trainable
from leaklab.federated.forms.one_by_one import OneByOne, channels_last
from leaklab.federated.forms.plain_cnn import PlainCnn
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, MODELS, SAMPLES = (1, 28, 28), 10, 4, 5
EXACT = {"rtol": 0, "atol": 1e-12}
LAYERS = {
    "strided": lambda: [
        nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(4, 6, (3, 2), dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 3 * 5, CLASSES, bias=False),
    ],
    "grouped": lambda: [nn.Conv2d(1, 4, 5, stride=3), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(),
                        nn.Linear(6 * 36, CLASSES)],
    "sigmoid": lambda: [nn.Conv2d(1, 4, 5, stride=3), nn.Sigmoid(), nn.Flatten(), nn.Linear(4 * 64, CLASSES)],
    "residual": lambda: [nn.Conv2d(1, 4, 5, stride=3), Doubled(), nn.Flatten(), nn.Linear(4 * 64, CLASSES)],
}  # fmt: skip
FORMS = {
    "cnn-mnist": PlainCnn, "strided": PlainCnn, "grouped": PlainCnn, "sigmoid": StackedNetwork, "residual": OneByOne,
    "mlp": DenseNetwork, "logistic-regression": DenseNetwork,
}  # fmt: skip


class Doubled(nn.Module):
    def forward(self, values):
        return values + torch.tanh(values)


def build(name, seed, dtype=torch.float64):
    if name not in LAYERS:
        settings = {"dropout": 0.0} if name == "mlp" else {}
        return plugins.load("models", name, settings).initialised(SHAPE, CLASSES, seed, dtype)
    network, draws = nn.Sequential(*LAYERS[name]()).to(dtype), stream(seed, "weights")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * draws.normal(*parameter.shape))
    return network


def batch_of(groups, dtype=torch.float64):
    draws = stream(0, "images")
    return Batch(draws.normal(groups, SAMPLES, *SHAPE).to(dtype), draws.integers(0, CLASSES, groups, SAMPLES), {})


def by_loop(module, images, labels, bound, shared, present=None, size=None):
    """Return the mean loss and the clipped mean gradient from one backward pass for each sample."""
    total = {name: torch.zeros_like(value) for name, value in module.named_parameters()}
    losses = 0.0
    for index in range(len(labels)):
        if present is not None and not present[index]:
            continue
        module.zero_grad()
        loss = F.cross_entropy(module(images[index : index + 1]), labels[index : index + 1])
        loss.backward()
        gradients = {name: value.grad for name, value in module.named_parameters()}
        norm = sum(value.square().sum() for name, value in gradients.items() if name in shared) ** 0.5
        for name, value in gradients.items():
            total[name] += value * (min(1.0, bound / float(norm)) if name in shared else 1.0)
        losses += float(loss.detach())
    size = size or len(labels)
    return losses / size, {name: value / size for name, value in total.items()}


def norms_of(module, batch):
    return [
        float(sum(v.square().sum() for v in by_loop(module, image[None], label[None], 1e9, ())[1].values()) ** 0.5)
        for image, label in zip(batch.images[0], batch.labels[0], strict=True)
    ]


def stacked(modules):
    return {name: torch.stack([m.state_dict()[name] for m in modules]) for name in modules[0].state_dict()}


@pytest.mark.parametrize("part", ["all", "extractor", "weights", "nothing"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", FORMS)
def test_equals_a_loop_over_single_samples(name, groups, part):
    modules = [build(name, seed) for seed in range(MODELS)]
    batch, weights = batch_of(groups), channels_last(stacked(modules))
    before = {key: value.clone() for key, value in weights.items()}
    form = trainable(deepcopy(modules[0]), SHAPE)
    assert type(getattr(form, "other", form)) is FORMS[name]
    names = list(weights)
    shared = {
        "all": names, "extractor": names[:1], "weights": [n for n in names if n.endswith("weight")], "nothing": []
    }[part]  # fmt: skip
    # some samples within the bound, some outside, and another bound for each model
    bounds = torch.tensor([sorted(norms_of(module, batch))[1 + index % 3] for index, module in enumerate(modules)])
    bounds = bounds.to(torch.float64)
    losses, found = clipped_gradients(form, weights, batch, bounds, shared)
    assert found.keys() == weights.keys()
    for index, module in enumerate(modules):
        group = index // (MODELS // groups)
        loss, wanted = by_loop(module, batch.images[group], batch.labels[group], float(bounds[index]), shared)
        assert float(losses[index]) == pytest.approx(loss, abs=1e-12)
        for key, value in wanted.items():
            assert_close(found[key][index], value, **EXACT)
    assert all(torch.equal(weights[key], before[key]) for key in weights)
    assert has_formulas(form) is (name != "grouped") if isinstance(form, PlainCnn) else True


@pytest.mark.parametrize("name", ["cnn-mnist", "strided"])
def test_written_out_equals_the_form_lifted_over_samples(name):
    module = build(name, 0)
    form, batch, weights = PlainCnn(deepcopy(module)), batch_of(1), stacked([module])
    losses, each = form.sample_gradients({k: v[0] for k, v in weights.items()}, batch.images[0], batch.labels[0])
    norms = torch.stack([value.flatten(1).square().sum(1) for value in each.values()]).sum(0).sqrt()
    bound = norms.median()
    loss, found = clipped_gradients(form, weights, batch, bound[None], list(weights))
    factors = (bound / norms).clamp(max=1) / SAMPLES
    assert_close(loss[0], losses.mean(), **EXACT)
    for key, value in each.items():
        assert_close(found[key][0], torch.tensordot(factors, value, 1), **EXACT)


def test_no_sample_of_a_clipped_mean_weighs_more_than_the_bound():
    module, batch = build("cnn-mnist", 0), batch_of(1)
    form, weights, bound = PlainCnn(deepcopy(module)), stacked([module]), torch.tensor([0.04], dtype=torch.float64)
    assert min(norms_of(module, batch)) > 10 * 0.04
    one = Batch(batch.images[:, :1], batch.labels[:, :1], {})
    found = clipped_gradients(form, weights, one, bound, list(weights))[1]
    assert float(sum(value.square().sum() for value in found.values()) ** 0.5) == pytest.approx(0.04, rel=1e-12)


@pytest.mark.parametrize("name", ["cnn-mnist", "grouped", "sigmoid"])
def test_absent_samples_have_no_part_and_the_sum_is_divided_by_the_expected_size(name):
    module, whole = build(name, 0), batch_of(1)
    present = torch.tensor([[1.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    batch = Batch(whole.images, whole.labels, {}, present=present, expected=3)
    weights, bound = stacked([module]), torch.tensor([min(norms_of(module, whole))], dtype=torch.float64)
    loss, found = clipped_gradients(trainable(deepcopy(module), SHAPE), weights, batch, bound, list(weights))
    wanted = by_loop(module, batch.images[0], batch.labels[0], float(bound), weights, present[0], size=3)
    assert float(loss) == pytest.approx(wanted[0], abs=1e-12)
    for key, value in wanted[1].items():
        assert_close(found[key][0], value, **EXACT)


def test_dropout_masks_of_the_samples_are_kept():
    network = plugins.load("models", "mlp", {"dropout": 0.5}).initialised(SHAPE, CLASSES, 0, torch.float64)
    form, batch = trainable(deepcopy(network), SHAPE), batch_of(1)
    (layer, site), = form.dropouts.items()  # fmt: skip
    masks = {layer: (stream(0, "mask").uniform(1, SAMPLES, *site.shape) >= 0.5).to(torch.float64) * 2}
    weights, none = stacked([network]), torch.tensor([torch.inf], dtype=torch.float64)
    masked = Batch(batch.images, batch.labels, masks)
    losses, plain = form.gradients(weights, masked)
    found = clipped_gradients(form, weights, masked, none, list(weights))
    assert_close(found[0], losses, **EXACT)
    for key, value in plain.items():
        assert_close(found[1][key], value, **EXACT)


def test_a_gradient_of_zero_stays_zero():
    layers = OrderedDict(conv=nn.Conv2d(1, 2, 3), flatten=nn.Flatten(), fc=nn.Linear(2 * 26 * 26, 1))
    network = nn.Sequential(layers).to(torch.float64)  # a single class has no slope
    batch = Batch(batch_of(1).images, torch.zeros(1, SAMPLES, dtype=torch.int64), {})
    bound = torch.tensor([0.1], dtype=torch.float64)
    found = clipped_gradients(PlainCnn(deepcopy(network)), stacked([network]), batch, bound, list(network.state_dict()))
    assert all((value == 0).all() for value in found[1].values())


def test_samples_that_mix_are_refused():
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2 * 26 * 26, CLASSES))
    form, weights = OneByOne(deepcopy(network)), stacked([network.double()])
    with pytest.raises(UserError, match="samples mix in a batch normalisation"):
        clipped_gradients(form, weights, batch_of(1), torch.ones(1, dtype=torch.float64), ["0.weight"])
