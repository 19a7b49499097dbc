"""Batches are reshuffled passes over a client's samples, and common to all settings of a seed."""

import pytest
import torch

from leaklab.federated.batches import Visit, batch_stream
from leaklab.federated.forms.stacked import DropoutSite
from leaklab.records.streams import stream


@pytest.fixture
def visit():
    return Visit(seed=3, client=1, round=2, samples=torch.arange(100, 110))


def test_every_pass_shows_each_sample_once(visit):
    batches = visit.batch_indices(local_steps=4, batch_size=5)  # two passes
    assert batches.shape == (4, 5)
    for start in (0, 2):
        assert sorted(batches[start : start + 2].flatten().tolist()) == list(range(100, 110))
    assert batches[:2].tolist() != batches[2:].tolist()  # reshuffled


def test_the_rest_of_a_pass_is_dropped(visit):
    batches = visit.batch_indices(local_steps=5, batch_size=4)  # 10 = 4 + 4 + rest of 2
    assert batches.shape == (5, 4)
    for start in (0, 2):
        assert len(set(batches[start : start + 2].flatten().tolist())) == 8


def test_a_small_client_uses_all_it_has(visit):
    batches = visit.batch_indices(local_steps=3, batch_size=32)
    assert batches.shape == (3, 10)
    assert all(sorted(batch.tolist()) == list(range(100, 110)) for batch in batches)


@pytest.mark.parametrize("other", [{"seed": 4}, {"client": 2}, {"round": 3}])
def test_seed_client_and_round_decide(visit, other):
    site = DropoutSite(0.5, (20,))
    same = Visit(visit.seed, visit.client, visit.round, visit.samples)
    different = Visit(**({"seed": 3, "client": 1, "round": 2} | other), samples=visit.samples)
    assert torch.equal(visit.batch_indices(4, 5), same.batch_indices(4, 5))
    assert not torch.equal(visit.batch_indices(4, 5), different.batch_indices(4, 5))
    assert torch.equal(visit.dropout_mask("d", site, 4, 5), same.dropout_mask("d", site, 4, 5))
    assert not torch.equal(visit.dropout_mask("d", site, 4, 5), different.dropout_mask("d", site, 4, 5))


def test_dropout_keeps_the_share_and_the_mean():
    visit = Visit(0, 0, 0, torch.arange(50))
    images, labels = stream(0, "x").normal(50, 1, 2, 2), torch.zeros(50, dtype=torch.int64)
    sites = {"drop": DropoutSite(0.2, (400,))}
    batches = list(batch_stream(images, labels, [visit], sites, local_steps=3, batch_size=50))
    masks = torch.stack([batch.masks["drop"] for batch in batches])
    assert masks.shape == (3, 1, 50, 400)
    assert set(masks.unique().tolist()) == {0.0, 1 / 0.8}
    assert masks.mean() == pytest.approx(1, abs=0.01)
    assert not torch.equal(masks[0], masks[1])


def test_the_stream_gathers_the_indexed_images(visit):
    images, labels = stream(0, "x").normal(110, 1, 2, 2), torch.arange(110)
    (batch,) = batch_stream(images, labels, [visit, Visit(3, 2, 2, visit.samples)], {}, local_steps=1, batch_size=4)
    assert batch.images.shape == (2, 4, 1, 2, 2)
    assert torch.equal(batch.labels[0], visit.batch_indices(1, 4)[0])
    assert torch.equal(batch.images, images[batch.labels])
