"""F4 on updates that clients send under defenses: what the first affine layer gives away, and what it does not.

Source: "Inverting Gradients - How easy is it to break privacy in federated learning?", proposition 3.1.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.labels.head import layer_input
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.records import plugins
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

SHAPE, CLASSES = (1, 28, 28), 10
FIRST_LAYER_IS_AFFINE = ("logistic-regression", "mlp")
# networks of the items whose only affine layers follow convolutions
AFTER_CONVOLUTIONS = ("cnn-small", "cnn-mnist", "dlg-lenet", "resnet-small")


@pytest.fixture(scope="module")
def dataset(digits):
    images = F.interpolate(digits[0][:60], size=SHAPE[1:]).mul(255).round().to(torch.uint8)
    one = torch.ones(1)
    return Dataset("digits", CLASSES, images[:20], digits[1][:20], images[20:], digits[1][20:60], 0 * one, one)


def observed(dataset, model, defense, **changes):
    fields = {"dataset": "digits", "images": {"count": 3, "seed": 1}, "model": model, "defense": defense}
    return capture(CaptureSpec.model_validate({**fields, "rate": 0.1, **changes}), dataset)


def first_affine(network):
    return next((name, module) for name, module in network.named_modules() if isinstance(module, nn.Linear))


def row_of_largest(update, layer):
    """Return [T, inputs]: the row of dW over its db, of the output whose db is largest."""
    weight, bias = update[f"{layer}.weight"], update[f"{layer}.bias"]
    largest = bias.abs().argmax(1)
    rows = torch.arange(len(bias))
    return weight[rows, largest] / bias[rows, largest, None]


def attack(observation, knowledge):
    streams = partial(stream, 0, "attack")
    return plugins.load("attacks", "analytic").reconstruct(Case(observation, knowledge, Budget(1, 1), streams))


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("defense", ["none", "lrp", "gradient-clipping"])
@pytest.mark.parametrize("model", FIRST_LAYER_IS_AFFINE)
def test_f4_a_network_that_begins_with_an_affine_layer_sends_its_image(dataset, model, defense, kind):
    """A factor on the update, a hidden rate or a clip, is in dW and in db."""
    observation, knowledge, truth = observed(dataset, model, defense, kind=kind)
    layer, _ = first_affine(plugins.load("models", model).build(SHAPE, CLASSES))
    found = layer_input(observation.update[f"{layer}.weight"], observation.update[f"{layer}.bias"])
    torch.testing.assert_close(found, truth.images.flatten(1), rtol=0, atol=1e-9)
    made = attack(observation, knowledge)
    torch.testing.assert_close(made.images, truth.images, rtol=0, atol=1e-9)
    assert torch.equal(made.labels, truth.labels)
    assert [start.trial for start in attack(observation.select([2, 0]), knowledge).starts] == [2, 0]


def test_of_noisy_gradients_the_plugin_takes_all_rows(dataset):
    """Least squares over the rows: at least as near as the best single row, for every image."""
    observation, knowledge, truth = observed(dataset, "logistic-regression", {"name": "additive-noise", "sigma": 0.01})
    single = row_of_largest(observation.update, "fc")
    errors = (attack(observation, knowledge).images.flatten(1) - truth.images.flatten(1)).square().mean(1)
    assert (errors < (single - truth.images.flatten(1)).square().mean(1)).all()


@pytest.mark.parametrize("model", AFTER_CONVOLUTIONS)
def test_f4_behind_convolutions_it_is_the_feature(dataset, model):
    observation, _, truth = observed(dataset, model, "lrp")
    network = plugins.load("models", model).initialised(SHAPE, CLASSES, 0, torch.float64).eval()
    layer, module = first_affine(network)
    seen = []
    module.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        network(truth.images.flatten(0, 1))
    torch.testing.assert_close(
        layer_input(observation.update[f"{layer}.weight"], observation.update[f"{layer}.bias"]),
        seen[0],
        rtol=0,
        atol=1e-9,
    )


def test_two_images_mix_and_noise_breaks_it(dataset):
    """What the identity rests on: one sample, and a common factor."""
    layer, _ = first_affine(plugins.load("models", "mlp").build(SHAPE, CLASSES))
    for changes in ({"batch_size": 3}, {"defense": {"name": "additive-noise", "sigma": 0.1}}):
        observation, _, truth = observed(dataset, "mlp", **{"defense": "none", **changes})
        found = layer_input(observation.update[f"{layer}.weight"], observation.update[f"{layer}.bias"])
        assert float((found[:, None] - truth.images.flatten(2)).square().mean(2).min()) > 1e-3
