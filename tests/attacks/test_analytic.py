"""F4, and F10 as far as it goes: what an affine layer's gradients say of its input, exactly."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.analytic import AnalyticReconstruction
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.labels.head import layer_input
from leaklab.models.affine import LogisticRegression, MultilayerPerceptron
from leaklab.models.normalisation import normalised
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS = 10
SHAPE, CLASSES = (1, 8, 8), 10
NETWORKS = {"mlp": MultilayerPerceptron(), "logistic-regression": LogisticRegression()}


@pytest.fixture(scope="module")
def private(digits):
    return digits[0][:TRIALS, None], digits[1][:TRIALS, None]


def observed(observe, private, name, factors=None, kind="gradient", wrap=lambda network: network):
    network = wrap(NETWORKS[name].initialised(SHAPE, CLASSES, 0, torch.float64)).eval()
    made = observe(*private, factors, network=network, kind=kind)
    return replace(made, model={"name": name, "settings": {}})


def run(observation, knowledge):
    return AnalyticReconstruction().reconstruct(Case(observation, knowledge, Budget(1, 1), partial(stream, 0)))


def test_f4_the_input_of_every_affine_layer(observe, private):
    """Of the head too: its input are the features."""
    network = NETWORKS["mlp"].initialised(SHAPE, CLASSES, 0, torch.float64).eval()
    update = observed(observe, private, "mlp").update
    affine = [(name, layer) for name, layer in network.named_children() if isinstance(layer, nn.Linear)]
    assert len(affine) > 1
    for name, layer in affine:
        seen = []
        layer.register_forward_hook(lambda _, inputs, __, seen=seen: seen.append(inputs[0]))
        network(private[0][:, 0])
        found = layer_input(update[f"{name}.weight"], update[f"{name}.bias"])
        assert (found - seen[0]).abs().max() < 1e-8


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("kind", "factor"), [("gradient", 1.0), ("gradient", 37.0), ("delta", -1e-4)])
def test_f4_and_f6_the_image_is_exact_whatever_the_factor(observe, private, knowledge, name, kind, factor):
    found = run(observed(observe, private, name, [factor] * TRIALS, kind), knowledge)
    assert (found.images - private[0]).abs().max() < 1e-8
    assert torch.equal(found.labels, private[1])
    assert torch.equal(found.candidates[:, 0], found.images)
    assert {start.stopped for start in found.starts} == {"read"}
    assert found.candidate_losses.isnan().all()  # no loss was evaluated, and nothing is proven
    assert found.certified is None
    assert found.evaluations() == 0


def test_f4_behind_a_normalisation_the_image_is_on_the_unit_scale(observe, private, knowledge):
    scale = {"mean": [0.13], "std": [0.31]}
    observation = observed(observe, private, "mlp", wrap=lambda network: normalised(network, **scale))
    given = Knowledge("any", {**knowledge.facts, "normalisation": scale})
    assert (run(observation, given).images - private[0]).abs().max() < 1e-8


def test_f10_one_sample_between_two_bins_is_exact_and_two_are_mixed(digits):
    """Robbing the Fed: row j of the first layer measures the brightness, and its bias subtracts the bin's edge j.

    Then the difference of neighbouring rows' gradients is that of the samples whose brightness lies between.
    """
    images, labels = digits[0][:6].flatten(1), digits[1][:6]
    brightness = images.mean(1).sort()
    edges = torch.cat([brightness.values[:4] - 1e-6, brightness.values[5:] + 1e-6])
    first, last = nn.Linear(64, 5).double(), nn.Linear(5, CLASSES).double()
    first.weight.data.fill_(1 / 64)
    first.bias.data.copy_(-edges)
    last.weight.data.copy_(last.weight.data[:, :1].expand_as(last.weight))  # all bins weigh the same
    F.cross_entropy(last(torch.relu(first(images))), labels).backward()
    weights, biases = -first.weight.grad.diff(dim=0), -first.bias.grad.diff(dim=0)
    for place in range(3):
        found = layer_input(weights[None, [place]], biases[None, [place]])[0]
        assert (found - images[brightness.indices[place]]).abs().max() < 1e-4
    mixed = layer_input(weights[None, [3]], biases[None, [3]])[0]
    assert (images - mixed).flatten(1).abs().amax(1).min() > 1e-2


def test_an_update_of_zeros_is_recorded_as_diverged(observe, private, knowledge):
    found = run(observed(observe, private, "mlp", [1.0, 0.0, *[1.0] * (TRIALS - 2)]), knowledge)
    assert [start.stopped for start in found.starts][:3] == ["read", "diverged", "read"]
    assert found.candidate_losses[1] == torch.inf


def test_what_cannot_be_read_is_refused(observe, private, knowledge):
    with pytest.raises(UserError, match="begins with an affine layer"):
        run(observe(*private), knowledge)
    with pytest.raises(UserError, match="batch_size <= 1, not 2"):
        run(observed(observe, private, "mlp"), Knowledge("any", {**knowledge.facts, "batch_size": 2}))
