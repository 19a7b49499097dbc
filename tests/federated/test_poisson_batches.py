"""Poisson batches: each sample is drawn on its own with probability B / n, whoever trains beside."""

import math

import pytest
import torch

from leaklab.data.augmentations import CropFlipCutout
from leaklab.federated.batches import Visit, drawn_samples, poisson_stream

STEPS, BATCH = 4000, 5


def test_each_sample_joins_each_batch_with_the_rate_of_the_accountant():
    visit = Visit(seed=0, client=1, round=2, samples=torch.arange(100, 140))
    drawn = drawn_samples(visit, STEPS, BATCH)
    joined = torch.stack([torch.isin(visit.samples, own) for own in drawn]).double()
    rate = BATCH / 40
    spread = math.sqrt(rate * (1 - rate) / STEPS)
    assert (abs(joined.mean(0) - rate) < 5 * spread).all()
    sizes = joined.sum(1)
    assert abs(sizes.mean() - BATCH) < 5 * math.sqrt(40) * spread
    assert abs(sizes.var() / (40 * rate * (1 - rate)) - 1) < 0.15  # binomial: samples do not know of each other
    assert abs(torch.corrcoef(joined.T[:2])[0, 1]) < 5 / math.sqrt(STEPS)
    assert (sizes == 0).any()


def test_a_client_with_too_few_samples_uses_all_of_them():
    drawn = drawn_samples(Visit(0, 0, 0, torch.arange(3)), 4, 10)
    assert all(own.tolist() == [0, 1, 2] for own in drawn)


@pytest.mark.parametrize("augmentation", [None, CropFlipCutout(padding=1, cutout=2)])
def test_who_trains_beside_changes_nothing_but_the_padding(augmentation):
    images, labels = torch.rand(60, 1, 8, 8, dtype=torch.float64), torch.arange(60) % 4
    visits = [Visit(0, k, 0, torch.arange(20 * k, 20 * k + 20)) for k in range(3)]
    together = list(poisson_stream(images, labels, visits, 6, BATCH, augmentation))
    for group, visit in enumerate(visits):
        alone = list(poisson_stream(images, labels, [visit], 6, BATCH, augmentation))
        for both, one, drawn in zip(together, alone, drawn_samples(visit, 6, BATCH), strict=True):
            there = both.present[group].bool()
            assert there.sum() == len(drawn) == one.present.sum()
            assert torch.equal(both.images[group][there], one.images[0][one.present[0].bool()])
            assert torch.equal(both.labels[group][there], labels[drawn])
            assert (both.size, both.images.shape[1]) == (BATCH, max(1, int(both.present.sum(1).max())))
            if augmentation is None:
                assert torch.equal(both.images[group][there], images[drawn])
