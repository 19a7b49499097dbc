"""Robbing the Fed: a batch is read out of bins, exactly, whatever the factor on the update."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.base import Budget, Case
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.observations.requirements import check
from leaklab.observations.servers.base import Imprint
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

BATCH, UNITS = 64, 256
# of the brightness of scikit-learn's digits
LAW = {"mean": 0.305, "std": 0.04}


@pytest.fixture(scope="module")
def dataset(digits):
    images, labels = (digits[0] * 255).round().to(torch.uint8), digits[1]
    one = torch.ones(1)
    return Dataset("digits", 10, images[:500], labels[:500], images[500:], labels[500:], 0 * one, one)


def observed(dataset, **changes):
    fields = {
        "dataset": "digits",
        "images": {"count": BATCH, "seed": 1},
        "batch_size": BATCH,
        "model": {"name": "mlp", "hidden": UNITS},
        "rate": 0.1,
        "threat_model": "malicious-server",
        "server": {"name": "imprint", **LAW},
    }
    return capture(CaptureSpec.model_validate({**fields, **changes}), dataset)


def read(observation, knowledge):
    streams = partial(stream, 0, "attack")
    return plugins.load("attacks", "imprint").reconstruct(Case(observation, knowledge, Budget(1, 1), streams))


def alone_in_their_bins(images):
    """The slow count: samples with which no other shares a bin; below the first cut there is none."""
    cuts = Imprint(**LAW).cuts(UNITS).tolist()
    places = [sum(float(image.mean()) > cut for cut in cuts) for image in images]
    return [image for image, place in zip(images, places, strict=True) if place and places.count(place) == 1]


def exactly_found(found, images):
    distances = torch.cdist(found.flatten(1).nan_to_num(nan=9.0), images.flatten(1), p=torch.inf)
    return (distances.amin(0) < 1e-8).sum()


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("defense", ["none", "lrp"])
def test_every_sample_alone_in_its_bin_is_read_exactly(dataset, kind, defense):
    observation, knowledge, truth = observed(dataset, kind=kind, defense=defense)
    lone = alone_in_their_bins(truth.images[0])
    assert BATCH / 4 < len(lone) < BATCH
    found = read(observation, knowledge)
    assert exactly_found(found.images[0], torch.stack(lone)) == len(lone)
    # and of the others none
    assert exactly_found(found.images[0], truth.images[0]) == len(lone)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_what_is_read_does_not_depend_on_the_size_of_the_update(dataset, factor):
    """A bin is empty beside the others, not by its own size."""
    observation, knowledge, _ = observed(dataset)
    update = {name: factor * value for name, value in observation.update.items()}
    plain, scaled = (read(one, knowledge).images for one in (observation, replace(observation, update=update)))
    torch.testing.assert_close(scaled, plain, equal_nan=True, rtol=1e-6, atol=1e-6)


def test_places_without_a_bin_are_no_numbers_and_labels_are_not_read(dataset):
    found = read(*observed(dataset)[:2])
    empty = found.images[0].flatten(1).isnan()
    assert 0 < empty.all(1).sum() < BATCH
    assert torch.equal(empty.any(1), empty.all(1))
    assert (found.labels == -1).all()


def test_pruning_breaks_the_quotients(dataset):
    pruned = {"name": "gradient-compression", "dropped": 0.8}
    observation, knowledge, truth = observed(dataset, defense=pruned)
    assert exactly_found(read(observation, knowledge).images[0], truth.images[0]) == 0


def test_a_layer_that_nobody_imprinted_is_refused(dataset):
    observation, knowledge, _ = observed(dataset, server=None)
    facts = {**knowledge.facts, "server": {"name": "imprint", "settings": {}}}
    with pytest.raises(UserError, match="set server: imprint"):
        read(observation, type(knowledge)(knowledge.threat_model, facts))
    with pytest.raises(UserError, match="imprint' needs 'data_statistics'"):
        check("imprint", {}, "honest-but-curious")


def test_the_server_needs_two_affine_layers(dataset):
    with pytest.raises(UserError, match="begins with two affine layers"):
        observed(dataset, model="dlg-lenet")
