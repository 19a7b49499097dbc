"""What pruning leaves of one sample's first layer: exact products, and OUTPOST's noise is far below them."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.attacks.adaptive.emulation import OutpostSupport
from leaklab.attacks.analytic import SupportQuotient
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.first_layer.layer import FirstLayer, first_layers
from leaklab.attacks.first_layer.quotient import completed, total_least_squares
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.observations.requirements import check_batch, check_transform
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

UNITS, PIXELS, TRIALS = 16, 64, 6
MLP = {"name": "mlp", "hidden": 64, "dropout": 0.0}


def draw(name, *shape):
    return stream(0, name).normal(*shape).numpy()


def product(keep):
    """Return an image and its layer of which ``keep`` says, by size, which entries are left."""
    image, derivatives = np.abs(draw("x", PIXELS)), draw("d", UNITS)
    weight, bias = np.outer(derivatives, image), derivatives.copy()
    bound = np.quantile(np.abs(weight), 1 - keep) if keep < 1 else 0.0
    weight[np.abs(weight) < bound] = 0
    return image, FirstLayer(weight, bias, draw("W", UNITS, PIXELS), draw("c", UNITS))


@pytest.mark.parametrize("keep", [1.0, 0.5, 0.2])
def test_what_is_left_of_a_product_tells_the_whole(keep):
    image, layer = product(keep)
    seen = (layer.weight_update != 0).any(0)
    assert seen.sum() > PIXELS / 2
    assert np.allclose(completed(layer)[seen], image[seen], rtol=1e-6)
    assert (completed(layer)[~seen] == 0).all()
    assert np.linalg.norm(total_least_squares(layer)[seen] - image[seen]) > 1e-2 * (keep < 1)


def test_without_zeros_it_is_total_least_squares():
    _, layer = product(1.0)
    weight, bias = (value + 1e-2 * draw("n", *value.shape) for value in (layer.weight_update, layer.bias_update))
    noisy = FirstLayer(weight, bias, layer.weight, layer.bias)
    assert np.allclose(completed(noisy), total_least_squares(noisy), rtol=1e-6)


def test_a_factor_changes_nothing_and_without_biases_the_brightest_pixel_is_white():
    image, layer = product(0.5)
    hidden = FirstLayer(-0.3 * layer.weight_update, -0.3 * layer.bias_update, layer.weight, layer.bias)
    assert np.allclose(completed(hidden), completed(layer), rtol=1e-9)
    bare = FirstLayer(layer.weight_update, 0 * layer.bias_update, layer.weight, layer.bias)
    seen = (layer.weight_update != 0).any(0)
    assert np.allclose(completed(bare)[seen], image[seen] / image.max(), rtol=1e-6)
    assert (completed(FirstLayer(0 * layer.weight_update, 0 * layer.bias_update, layer.weight, layer.bias)) == 0).all()


@pytest.fixture(scope="module")
def dataset():
    loaded = load_digits()
    images = torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None]
    labels = torch.tensor(loaded.target)
    return Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:],
                   torch.zeros(1), torch.ones(1))  # fmt: skip


def captured(dataset, defense, **changes):
    fields = {
        "dataset": "digits",
        "images": {"count": TRIALS, "seed": 1},
        "model": MLP,
        "rate": 0.1,
        "defense": defense,
    }
    return capture(CaptureSpec.model_validate(fields | changes), dataset)


def errors(observation, knowledge, truth):
    found = SupportQuotient().reconstruct(Case(observation, knowledge, Budget(1, 1), lambda *n: stream(0, *n)))
    assert found.images.shape == truth.images.shape
    return (found.images.clamp(0, 1) - truth.images).square().flatten(1).mean(1)


@pytest.mark.parametrize("scale", [0.1, 0.8])
def test_outposts_noise_is_told_from_what_it_left(dataset, scale):
    """Its zeros under noise are pruned for who knows the law; for others they pull the image towards black.

    Few inputs have weights of a large variance, and so more noise than images of 784 pixels get.
    """
    observation, knowledge, truth = captured(dataset, {"name": "outpost", "noise_scale": scale})
    prepared, ones = OutpostSupport().prepare(observation, knowledge)
    for name, value in observation.update.items():
        kept = prepared.update[name]
        assert ((kept == value) | (kept == 0)).all()
        # pruned to a fifth, noise on two fifths: about a half of what is not zero is noise alone
        assert (kept != 0).sum() <= 0.21 * value.numel() + 1
    assert ones.tolist() == [1.0] * TRIALS
    informed, plain = errors(prepared, knowledge, truth), errors(observation, knowledge, truth)
    assert informed.median() < plain.median() / 4
    assert informed.median() < 1e-3


def test_pruning_alone_hides_little_and_lrp_nothing(dataset):
    pruned = errors(*captured(dataset, {"name": "gradient-compression", "dropped": 0.8}))
    assert pruned.median() < 1e-6
    assert errors(*captured(dataset, "lrp")).max() < 1e-10


def test_what_does_not_fit_is_refused(dataset):
    observation, knowledge, _ = captured(dataset, {"name": "outpost"}, local_steps=3, kind="delta")
    with pytest.raises(UserError, match="knows the law of one step: set local_steps: 1"):
        OutpostSupport().prepare(observation, knowledge)
    observation, knowledge, _ = captured(dataset, {"name": "outpost", "parts": "prune"})
    with pytest.raises(UserError, match="no noise beside zeros: set transform: none"):
        OutpostSupport().prepare(observation, knowledge)
    with pytest.raises(UserError, match="does not fit defense 'lrp'"):
        check_transform("outpost-support", "lrp", 1)
    with pytest.raises(UserError, match="batch_size"):
        check_batch("support-quotient", 2)
    observation, knowledge, _ = captured(dataset, "none", model="dlg-lenet")
    with pytest.raises(UserError, match="begins with an affine layer"):
        first_layers(observation, knowledge, "support-quotient")
