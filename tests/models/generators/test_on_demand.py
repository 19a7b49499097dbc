"""Gaussians on demand are the prior of ``class-gaussian`` but for a rotation, and their sums lose no digit."""

import time
from copy import deepcopy

import pytest
import torch

from leaklab.models.generators import on_demand
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.on_demand import GaussiansOnDemand, column_sums, gram
from leaklab.records.errors import UserError

PIXELS, CLASSES = 12, 3
SHAPE = (1, 3, 4)


@pytest.fixture
def public():
    draws = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (400, *SHAPE), generator=draws, dtype=torch.uint8)
    return images, torch.randint(0, CLASSES, (400,), generator=draws)


def test_mean_and_covariance_are_those_of_the_fitted_generator(public):
    fitted = ClassGaussian().fitted(public[0] / 255, public[1], CLASSES).double()
    found = GaussiansOnDemand(*public, CLASSES).double()
    for k in range(CLASSES):
        covariances = [one.factor_of(k) @ one.factor_of(k).T for one in (found, fitted)]
        torch.testing.assert_close(*covariances, rtol=0, atol=1e-7)
        assert torch.equal(found.factor_of(k), found.factor_of(k).tril())
    torch.testing.assert_close(found.mean, fitted.mean.data, rtol=0, atol=1e-7)


def test_images_are_those_of_the_same_formula(public):
    found = GaussiansOnDemand(*public, CLASSES).double()
    latents = torch.linspace(-1, 1, 4 * PIXELS, dtype=torch.float64).view(4, PIXELS)
    classes = torch.eye(CLASSES, dtype=torch.float64)[[2, 0, 2, 0]]
    slow = [found.mean_of(k) + found.factor_of(k) @ z for k, z in zip((2, 0, 2, 0), latents, strict=True)]
    torch.testing.assert_close(found.generate(latents, classes).flatten(1), torch.stack(slow))


@pytest.mark.parametrize("extreme", [0, 127, 128, 255, None])
def test_sums_of_bytes_are_whole_numbers_to_the_last_digit(extreme):
    draws = torch.Generator().manual_seed(2)
    rows = torch.randint(0, 256, (1000, 40), generator=draws, dtype=torch.uint8)
    rows = rows if extreme is None else torch.full_like(rows, extreme)
    whole = rows.long()
    for way in (gram, on_demand._by_floats):
        assert torch.equal(way(rows), (whole.T @ whole).double())
    assert torch.equal(column_sums(rows), whole.sum(0).double())


def test_blocks_are_small_enough_to_be_exact():
    """At the brightest bytes a sum of one more row would be rounded."""
    assert on_demand.BLOCK * 255**2 <= 2**24
    assert on_demand.BLOCK_OF_SUMS * 255 <= 2**24
    assert on_demand.MOST_ROWS * 128**2 < 2**31


def test_a_processor_that_saturates_products_of_bytes_is_found_out(public, monkeypatch):
    rows = public[0].flatten(1)
    right, own = gram(rows), torch._int_mm

    def saturating(left, other):
        return own(left, other).clamp(max=300_000)

    monkeypatch.setattr(torch, "_int_mm", saturating)
    monkeypatch.setattr(on_demand, "has_products_of_bytes", lambda: True)
    assert not torch.equal(on_demand._by_bytes(rows), right)
    assert torch.equal(gram(rows), right)


@pytest.mark.parametrize("has", [False, True])
def test_both_ways_to_the_products_of_bytes_give_the_same_sums(public, monkeypatch, has):
    rows = public[0].flatten(1)
    monkeypatch.setattr(on_demand, "has_products_of_bytes", lambda: has)
    assert torch.equal(gram(rows), rows.double().T @ rows.double())


def test_a_way_that_only_some_processors_have_is_never_the_slower_one():
    """Without instructions for products of bytes torch takes twenty times as long for them as for floats."""
    torch.set_num_threads(1)
    rows = torch.randint(0, 256, (1000, 256), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    assert min(_seconds(gram, rows) for _ in range(5)) < 3 * min(_seconds(on_demand._by_floats, rows) for _ in range(5))


def _seconds(way, rows):
    began = time.process_time()
    way(rows)
    return time.process_time() - began


def test_only_the_classes_that_are_asked_for_are_fitted(public, monkeypatch):
    asked = []
    monkeypatch.setattr(on_demand, "gram", lambda rows: asked.append(len(rows)) or gram(rows))
    found = GaussiansOnDemand(*public, CLASSES)
    one_hot = torch.eye(CLASSES)[[1]]
    found.generate(torch.zeros(1, PIXELS), one_hot)
    deepcopy(found).double().generate(torch.zeros(1, PIXELS).double(), one_hot.double())
    assert asked == [int((public[1] == 1).sum())]


def test_of_each_class_so_many_images_are_public(public):
    images, labels = public
    first = torch.cat([(labels == k).nonzero()[:50, 0] for k in range(CLASSES)])
    few, same = (
        GaussiansOnDemand(*public, CLASSES, per_class=50),
        GaussiansOnDemand(images[first], labels[first], CLASSES),
    )
    every = GaussiansOnDemand(*public, CLASSES, per_class=0)
    assert torch.equal(few.mean, same.mean)
    assert torch.equal(few.factor_of(1), same.factor_of(1))
    assert not torch.equal(few.mean, every.mean)
    with pytest.raises(UserError, match="-1 public images"):
        GaussiansOnDemand(*public, CLASSES, per_class=-1)


def test_a_copy_in_another_dtype_leaves_the_first_as_it_was(public):
    found = GaussiansOnDemand(*public, CLASSES)
    other = deepcopy(found).double()
    assert other.factor_of(0).dtype == torch.float64
    assert found.factor_of(0).dtype == torch.float32
    assert not found.training
    # nor does it take over what was rounded
    fresh = GaussiansOnDemand(*public, CLASSES).double()
    found.factor_of(1)
    assert torch.equal(other.factor_of(1), fresh.factor_of(1))


def test_what_cannot_be_fitted_is_refused(public):
    images, labels = public
    with pytest.raises(UserError, match="bytes"):
        GaussiansOnDemand(images / 255, labels, CLASSES)
    with pytest.raises(UserError, match="floor above 0"):
        GaussiansOnDemand(images, labels, CLASSES, floor=0.0)
    with pytest.raises(UserError, match="class 3 needs 2 public images, not 0"):
        GaussiansOnDemand(images, labels, CLASSES + 1).factor_of(CLASSES)
