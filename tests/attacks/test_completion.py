"""Pruned batches of a first layer: the product behind the kept entries, what is read of it, and what is refused."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

from leaklab.attacks.first_layer import completion, peel
from leaklab.attacks.first_layer.completion import MISFIT, completed, misplaced
from leaklab.attacks.first_layer.layer import FirstLayer
from leaklab.defenses.outpost import dropped_count
from leaklab.models.affine import MultilayerPerceptron
from leaklab.records.streams import stream

read = partial(completion.read, reader=peel.read)


def client(count, hidden=200, seed=0, rate=1.0, side=20):
    """Return the first layer's update by one step on bright boxes, and these, [count, side * side] in [0, 1]."""
    rng = np.random.default_rng(seed)
    x = torch.zeros(count, 1, side, side, dtype=torch.float64)
    for image in x:
        for _ in range(4):
            (top, left), (height, width) = rng.integers(0, side - 4, 2), rng.integers(3, side // 2, 2)
            image[0, top : top + height, left : left + width] += rng.uniform(0.1, 0.5)
    x, labels = x.clamp(0, 1), torch.from_numpy(rng.integers(0, 10, count))
    network = MultilayerPerceptron(hidden=hidden, dropout=0.0).initialised((1, side, side), 10, seed, torch.float64)
    weights = list(network.parameters())[:2]
    moved = torch.autograd.grad(F.cross_entropy(network.eval()(x), labels), weights)
    parts = (*(rate * one for one in moved), *(one.detach() for one in weights))
    return FirstLayer(*(one.numpy() for one in parts), side), x.flatten(1).numpy()


def psnr(found, true):
    """Return the mean PSNR under the best pairing, in dB."""
    errors = ((found.clip(0, 1)[:, None] - true[None]) ** 2).mean(2)
    return float(np.mean(-10 * np.log10(errors[linear_sum_assignment(errors)])))


def draws():
    return stream(0, "test", "attack")


def largest(values, share=0.9):
    """Return the array without the smallest of its entries, as gradient-compression leaves it."""
    sizes = np.abs(values)
    return np.where(sizes < np.sort(sizes.ravel())[dropped_count(sizes.size, share)], 0.0, values)


def pruned(layer, share=0.9):
    update, bias = (largest(one, share) for one in (layer.weight_update, layer.bias_update))
    return FirstLayer(update, bias, layer.weight, layer.bias, layer.side)


def planted(count, units=200, size=400, seed=0):
    """Return an update [G g] that is a product of two random matrices of rank ``count``."""
    rng = np.random.default_rng(seed)
    product = rng.normal(size=(units, count)) @ rng.normal(size=(count, size + 1))
    return FirstLayer(product[:, :-1], product[:, -1], rng.normal(size=(units, size)), np.zeros(units), 20)


def distance(found, true):
    return np.linalg.norm(found - true) / np.linalg.norm(true)


class TestProduct:
    @pytest.mark.parametrize("count", [2, 4])
    def test_a_planted_product_is_found_behind_a_tenth_of_its_entries(self, count):
        layer = planted(count)
        seen, found = pruned(layer), completed(pruned(layer), count)
        kept = seen.weight_update != 0
        assert kept.mean() == pytest.approx(0.1, abs=1e-3)
        told = np.ix_(*((kept.sum(axis) >= 3 * count) for axis in (1, 0)))
        true, blind, whole = (one.weight_update[told] for one in (layer, seen, found.layer))
        assert distance(blind, true) > 0.3
        assert distance(whole, true) < 1e-3
        assert distance(found.layer.bias_update[told[0].ravel()], layer.bias_update[told[0].ravel()]) < 1e-3
        assert found.misfit < 1e-4

    def test_what_was_dropped_is_no_larger_than_what_was_kept(self):
        layer, _ = client(4)
        seen = pruned(layer)
        smallest = np.abs(seen.weight_update[seen.weight_update != 0]).min()
        found = completed(seen, 4).layer.weight_update
        assert np.abs(found[seen.weight_update == 0]).max() < smallest * (1 + 1e-2)

    def test_a_pixel_without_kept_entries_is_dark_and_not_used_to_unmix(self):
        layer, _ = client(4)
        seen = pruned(layer)
        dropped = ~(seen.weight_update != 0).any(0)
        found = completed(seen, 4)
        assert dropped.any()
        assert not found.layer.weight_update[:, dropped].any()
        assert not found.known[dropped].any()


class TestReading:
    @pytest.mark.parametrize("count", [2, 6])
    def test_an_update_of_which_nothing_was_dropped_is_read_as_without_completion(self, count):
        layer, _ = client(count)
        plain, same = peel.read(layer, count, draws()), read(layer, count, draws())
        assert plain.proven
        assert np.array_equal(plain.images, same.images)
        assert (plain.certified, plain.agreement) == (same.certified, same.agreement)

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("count", [4, 8])
    def test_a_tenth_of_the_entries_gives_images_away_and_proves_none(self, count, seed):
        layer, x = client(count, seed=seed)
        seen = pruned(layer)
        blind, found = peel.read(seen, count, draws()), read(seen, count, draws())
        assert psnr(found.images, x) > psnr(blind.images, x) + 8
        assert psnr(found.images, x) > 25
        assert (found.certified, found.agreement, found.proven) == (0, None, False)

    def test_a_hidden_rate_changes_nothing(self):
        one, many = (pruned(client(4, rate=rate)[0]) for rate in (0.1, 0.037))
        first, second = (read(layer, 4, draws()).images for layer in (one, many))
        assert np.abs(np.sort(first, 0) - np.sort(second, 0)).max() < 5e-3

    def test_the_weights_tell_the_better_of_two_readings(self):
        layer, x = client(4)
        mixed = 0.7 * x + 0.3 * x[::-1]
        assert misplaced(layer, 4, x) < 1e-9
        assert misplaced(layer, 4, mixed) > 0.01


class TestWhatIsNotRead:
    @pytest.mark.parametrize("count", [3, 6])
    def test_a_batch_is_not_read_as_one_of_fewer_samples(self, count):
        layer, _ = client(8)
        seen = pruned(layer)
        assert completed(seen, count).misfit > MISFIT
        assert np.isnan(read(seen, count, draws()).images).all()

    def test_noise_below_what_was_kept_is_told_by_the_misfit(self):
        layer, _ = client(4)
        size = 0.1 * np.abs(layer.weight_update).max()
        noise = size * np.random.default_rng(0).normal(size=layer.weight_update.shape)
        noisy = FirstLayer(layer.weight_update + noise, layer.bias_update, layer.weight, layer.bias, layer.side)
        seen = pruned(noisy)
        assert completed(seen, 4).misfit > MISFIT
        assert np.isnan(read(seen, 4, draws()).images).all()

    def test_fewer_entries_than_unknowns_determine_nothing(self):
        layer, _ = client(8, hidden=64, side=12)
        seen = pruned(layer, 0.97)
        assert not completion.determined(seen, 8)
        assert np.isnan(read(seen, 8, draws()).images).all()
