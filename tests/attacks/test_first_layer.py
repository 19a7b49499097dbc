"""Exact attacks on a first affine layer: the product itself, hidden rates, certificates, noise."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

from leaklab.attacks.first_layer import peel, quotient, spear, unmixing
from leaklab.attacks.first_layer.layer import FirstLayer, agreement
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def images(count, seed=0, side=12, background=True):
    """Return smooth blobs on black, [count, side * side], in [0, 1]."""
    draws = stream(seed, "test", "images")
    grid = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).double()
    found = torch.zeros(count, side, side, dtype=torch.float64)
    for _ in range(3):
        centre = 2 + (side - 4) * draws.uniform(count, 2)
        width = 0.8 + 1.2 * draws.uniform(count)
        square = ((grid[None] - centre[:, :, None, None]) ** 2).sum(1)
        found += (0.3 + 0.7 * draws.uniform(count))[:, None, None] * torch.exp(-square / width[:, None, None] ** 2)
    found = found.clamp(0, 1)
    return (torch.where(found > 0.1, found, 0.0) if background else found + 0.2).flatten(1)


def network(inputs, hidden, classes=10, seed=0):
    draws = stream(seed, "test", "network")
    sizes = (inputs, hidden, classes)
    layers = []
    for fan_in, fan_out in pairwise(sizes):
        half = fan_in**-0.5
        layers.append([(2 * draws.uniform(fan_out, fan_in) - 1) * half, (2 * draws.uniform(fan_out) - 1) * half])
    return layers


def update(layers, batches, rates, decay=0.0):
    """Return the first layer's update after local steps with a rate of each step's own, and what was sent."""
    own = [[part.clone() for part in layer] for layer in layers]
    for (x, y), rate in zip(batches, rates, strict=True):
        leaves = [part.clone().requires_grad_() for layer in own for part in layer]
        hidden = torch.relu(x @ leaves[0].T + leaves[1])
        F.cross_entropy(hidden @ leaves[2].T + leaves[3], y).backward()
        flat = [leaf.detach() - rate * (leaf.grad + decay * leaf.detach()) for leaf in leaves]
        own = [flat[:2], flat[2:]]
    side = int(layers[0][0].shape[1] ** 0.5)
    first, last = layers[0], own[0]
    return FirstLayer(
        (first[0] - last[0]).numpy(), (first[1] - last[1]).numpy(), first[0].numpy(), first[1].numpy(), side
    )


def labels(count, seed=0):
    return stream(seed, "test", "labels").integers(0, 10, count)


def psnr(found, true):
    """Return the PSNR of each true image under the best pairing, in dB, at most 150."""
    true = np.asarray(true)
    errors = ((np.nan_to_num(found, nan=0.5).clip(0, 1)[:, None] - true[None]) ** 2).mean(2)
    rows, columns = linear_sum_assignment(errors)
    best = np.zeros(len(true))
    best[columns] = np.minimum(150, -10 * np.log10(np.maximum(errors[rows, columns], 1e-15)))
    return best


def client(count, hidden=64, seed=0, rates=(0.1,), side=12, **changes):
    x = images(count * len(rates), seed, side)
    y = labels(count * len(rates), seed)
    layers = network(side * side, hidden, seed=seed)
    batches = [(x[k * count : (k + 1) * count], y[k * count : (k + 1) * count]) for k in range(len(rates))]
    return update(layers, batches, rates, **changes), x.numpy()


def draws(name="attack"):
    return stream(0, "test", name)


class TestProduct:
    def test_the_update_is_the_product_of_derivatives_and_inputs(self):
        layer, x = client(5)
        left, right = layer.factors(5)
        assert np.allclose(left @ right, layer.weight_update, rtol=0, atol=1e-12)
        # the rows of X span those of G
        rest = layer.weight_update - layer.weight_update @ np.linalg.pinv(x) @ x
        assert np.abs(rest).max() < 1e-12

    def test_more_samples_than_units_are_refused(self):
        layer, _ = client(5)
        with pytest.raises(UserError, match="65 samples cannot be told apart in a first layer of 64 units"):
            layer.factors(65)
        still = FirstLayer(0 * layer.weight_update, layer.bias_update, layer.weight, layer.bias)
        with pytest.raises(UserError, match="is zero, so nothing can be read off"):
            still.factors(2)

    def test_normalised_inputs_are_read_on_their_own_scale(self):
        mean, deviation = 0.13, 0.31
        x, y = images(4), labels(4)
        layers = network(144, 64)
        seen = update(layers, [((x - mean) / deviation, y)], [0.1])
        layer = seen.without_normalisation(np.full(144, mean), np.full(144, deviation))
        assert psnr(peel.read(layer, 4, draws()).images, x).min() > 100

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    @pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (0.13, 0.31)])
    def test_an_l2_term_is_taken_out_where_pixels_are_black(self, mean, deviation, dtype):
        """Of normalised inputs too, where black is no 0, and where rounding is as large as the term."""
        x, y, decay = images(4), labels(4), 1e-3
        layers = [[part.to(dtype) for part in layer] for layer in network(144, 64)]
        inputs = ((x - mean) / deviation).to(dtype)
        seen, plain = (update(layers, [(inputs, y)], [0.1], decay=own) for own in (decay, 0.0))
        weight, bias = (part.double().numpy() for part in layers[0])
        means, deviations = np.full(144, mean), np.full(144, deviation)
        shrunk = weight * deviations + np.outer(bias, means)
        with_term, without = (one.without_normalisation(means, deviations) for one in (seen, plain))
        clean = with_term.without_decay(shrunk, bias)
        left, before = (np.abs(one.weight_update - without.weight_update).max() for one in (clean, with_term))
        assert left < (1e-12 if dtype == torch.float64 else 0.1 * before)
        assert psnr(peel.read(clean, 4, draws()).images, x).min() > (100 if dtype == torch.float64 else 60)

    def test_images_without_black_pixels_keep_the_l2_term(self):
        x = images(4, background=False)
        layers = network(144, 64)
        seen = update(layers, [(x, labels(4))], [0.1], decay=1e-3)
        assert seen.without_decay(*(part.numpy() for part in layers[0])) is seen


class TestOneSample:
    @pytest.mark.parametrize("rates", [(0.1,), (0.3,), (0.05, 0.11, 0.02)])
    def test_a_quotient_gives_the_image_whatever_the_rates(self, rates):
        x, y = images(1), labels(1)
        layer = update(network(144, 64), [(x, y)] * len(rates), rates)
        for found in (quotient.one_unit(layer), quotient.least_squares(layer), quotient.total_least_squares(layer)):
            assert np.abs(found - x.numpy()[0]).max() < 1e-9
        assert psnr(quotient.read(layer, 1, draws()).images, x).min() == 150

    def test_under_noise_all_units_are_better_than_one(self):
        layer, x = client(1)
        noise = 1e-3 * np.abs(layer.bias_update).max()
        seen = noisy(layer, noise)
        one, all_units = (
            psnr(found[None], x)[0] for found in (quotient.one_unit(seen), quotient.total_least_squares(seen))
        )
        assert all_units > one + 3


class TestBatches:
    @pytest.mark.parametrize(("count", "hidden"), [(2, 64), (8, 64), (12, 64), (24, 200), (40, 200)])
    def test_peel_reads_a_batch_exactly_and_proves_it(self, count, hidden):
        layer, x = client(count, hidden, side=20)
        found = peel.read(layer, count, draws())
        assert found.proven
        assert found.certified == count
        assert psnr(found.images, x).min() > 60

    @pytest.mark.parametrize("count", [2, 6])
    def test_sampling_reads_a_small_batch_exactly_and_proves_it(self, count):
        layer, x = client(count)
        found = spear.read(layer, count, draws())
        assert found.proven
        assert psnr(found.images, x).min() > 60

    def test_what_is_found_does_not_depend_on_the_hidden_rates(self):
        one, x = client(4, rates=(0.1,))
        many = client(4, rates=(0.037,))[0]
        first, second = (peel.read(layer, 4, draws()).images for layer in (one, many))
        assert np.abs(np.sort(first, 0) - np.sort(second, 0)).max() < 1e-9
        assert psnr(first, x).min() > 100

    def test_five_hidden_rates_on_one_batch_leave_the_product_thin(self):
        x, y = images(6), labels(6)
        layer = update(network(144, 200), [(x, y)] * 5, [0.02, 0.001, 0.013, 0.007, 0.019])
        found = peel.read(layer, 6, draws())
        assert psnr(found.images, x).min() > 60

    def test_steps_on_other_batches_only_add_samples(self):
        layer, x = client(4, hidden=200, rates=(0.02, 0.005, 0.011, 0.016))
        found = peel.read(layer, 16, draws())
        assert (psnr(found.images, x) > 60).mean() > 0.9

    def test_differences_of_pixels_unmix_better_than_pixels(self):
        """Of digits, which have their middle in common; on unrelated blobs both are as good."""
        small = torch.from_numpy(load_digits().images[:8] / 16)
        x = F.interpolate(small[:, None], size=(28, 28), mode="bilinear")[:, 0].flatten(1)
        layer, x = update(network(784, 200), [(x, labels(8))], [0.1]), x.numpy()
        left, right = layer.factors(8)
        sums = left.T @ layer.bias_update
        edges, plain = (
            np.median(psnr(unmixing.unmixed(right, sums, layer.side, draws(), edges=on), x)) for on in (True, False)
        )
        assert edges > plain + 3

    def test_black_pixels_need_no_activation(self):
        x, y = images(5, side=20), labels(5)
        first, second = network(400, 64)
        leaves = [part.clone().requires_grad_() for part in (*first, *second)]
        logits = (x @ leaves[0].T + leaves[1]) @ leaves[2].T + leaves[3]  # no activation at all
        weight, bias = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), leaves[:2])
        layer = FirstLayer(weight.numpy(), bias.numpy(), first[0].numpy(), first[1].numpy(), 20)
        found = quotient.read_black_pixels(layer, 5, draws())
        assert psnr(found.images, x).min() > 60


class TestCertificates:
    def test_agreement_one_implies_more_than_60_db(self):
        proven = 0
        for seed in range(200):
            layer, x = client(6, seed=seed)
            found = peel.read(layer, 6, stream(seed, "attack"))
            if found.proven:
                proven += 1
                assert psnr(found.images, x).min() > 60
        assert proven > 150

    def test_a_wrong_direction_has_no_agreement(self):
        layer, _ = client(6)
        wrong = np.eye(6)
        assert agreement(layer, 6, wrong, layer.factors(6)[1]) < 0.9

    @pytest.mark.parametrize("seed", [0, 2])
    @pytest.mark.parametrize("count", [4, 12])
    def test_noise_costs_20_db_for_each_factor_of_ten(self, count, seed):
        """A certificate by chance or one that fails must not be what is believed in."""
        layer, x = client(count, seed=seed, rates=(1.0,), side=20)
        found = [np.median(psnr(peel.read(noisy(layer, 10.0**k), count, draws()).images, x)) for k in (-6, -5, -4)]
        assert found[0] == pytest.approx(100 if count == 4 else 90, abs=3)
        assert -np.diff(found) == pytest.approx([20, 20], abs=2)


class TestWithoutAllCertificates:
    def test_certified_images_are_read_beside_one_that_is_not(self):
        """24 samples on 64 units: of these two batches a sample has fewer units off than directions are open."""
        for seed in (1, 5):
            layer, x = client(24, seed=seed, rates=(1.0,), side=20)
            found = peel.read(layer, 24, draws())
            assert not found.proven
            assert psnr(found.images, x).min() > 60

    def test_an_image_beside_a_span_is_not_one_of_the_span(self):
        dark, bright = images(2, side=20).numpy()
        found = peel._sparse_beside(dark + 0.3 * bright, bright[None], draws())
        assert abs(np.corrcoef(found, dark)[0, 1]) > 1 - 1e-9


def noisy(layer, deviation):
    rng = np.random.default_rng(0)
    return FirstLayer(
        layer.weight_update + deviation * rng.normal(size=layer.weight_update.shape),
        layer.bias_update + deviation * rng.normal(size=layer.bias_update.shape),
        layer.weight, layer.bias, layer.side,
    )  # fmt: skip
