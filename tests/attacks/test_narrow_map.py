"""Narrow MAP: the same posterior as annealed MAP's last stage, further starts only where none explains the update."""

from functools import partial

import pytest
import torch

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.attacks.narrow_map import NarrowMap
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.metrics.guesses import match, reorder
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.on_demand import GaussiansOnDemand
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

PUBLIC, CLASSES = 1000, 10


@pytest.fixture(scope="module")
def public(digits):
    return (digits[0][:PUBLIC] * 255).round().to(torch.uint8), digits[1][:PUBLIC]


@pytest.fixture(scope="module")
def generator(public):
    return GaussiansOnDemand(*public, CLASSES)


@pytest.fixture(scope="module")
def captured(digits):
    images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
    dataset = Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], 0 * one, one)

    def make(**fields):
        common = {"dataset": "digits", "images": {"count": 2, "seed": 1}, "model": "dlg-lenet", "rate": 1.0,
                  "threat_model": "honest-but-curious-with-labels"}  # fmt: skip
        return capture(CaptureSpec.model_validate(common | fields), dataset)

    return make


def run(attack, generator, captured, iterations=150, restarts=1, distance=None):
    observation, knowledge, _ = captured
    streams = partial(stream, 0, "attack")
    return attack.reconstruct(
        Case(observation, knowledge, Budget(iterations, restarts), streams, distance, generator=generator)
    )


def error(found, truth):
    """Mean squared errors [T], in the best order."""
    guesses = found.images.clamp(0, 1)
    return ((reorder(guesses, match(guesses, truth.images)) - truth.images) ** 2).flatten(1).mean(1)


@pytest.mark.parametrize("fields", [{}, {"defense": "lrp"}])
def test_it_is_annealed_map_of_one_stage(captured, public, fields):
    """Under the rotated prior too, but for what float32 rounds off the other one, until that has grown."""
    made, fitted = captured(**fields), ClassGaussian().fitted(public[0] / 255, public[1], CLASSES)
    distance = profiled_scale if fields else None
    narrow = run(NarrowMap(history=40), GaussiansOnDemand(*public, CLASSES), made, 15, distance=distance)
    annealed = run(AnnealedMap(stages=1), fitted, made, 15, distance=distance)
    torch.testing.assert_close(narrow.images, annealed.images, rtol=0, atol=1e-5)
    torch.testing.assert_close(narrow.candidate_losses, annealed.candidate_losses, rtol=1e-3, atol=0)
    assert torch.equal(narrow.labels, made[2].labels)
    assert narrow.evaluations() == annealed.evaluations()


def test_it_reads_four_steps_at_the_rates_that_were_prescribed(captured, generator):
    made = captured(local_steps=4, rate=0.1)
    prescribed = error(run(NarrowMap(matching="prescribed"), generator, made, 80), made[2])
    assert (prescribed < 1e-4).all()
    # one gradient in place of all steps is off by what the weights moved
    assert (prescribed < error(run(NarrowMap(), generator, made, 80), made[2]) / 10).all()


def test_of_one_step_what_was_prescribed_changes_nothing(captured, generator):
    made = captured()
    one, other = (run(NarrowMap(matching=matching), generator, made, 20) for matching in ("gradient", "prescribed"))
    assert torch.equal(one.images, other.images)


def test_a_further_start_is_made_only_where_none_explains_the_update(captured, generator):
    made = captured()
    found = run(NarrowMap(), generator, made, restarts=3)
    assert [start.start for start in found.starts] == [0, 0]
    assert found.candidate_losses[:, 1:].isinf().all()
    few = run(NarrowMap(explained=0.0), generator, made, 5, restarts=3)
    assert [(start.trial, start.start) for start in few.starts] == [(t, s) for t in (0, 1) for s in (0, 1, 2)]
    assert torch.equal(few.images, few.candidates[torch.arange(2), few.candidate_losses.argmin(1)])


def test_batches_are_read_with_their_labels(captured, generator):
    made = captured(images={"count": 4, "seed": 1}, batch_size=2)
    found = run(NarrowMap(label_rule="known"), generator, made, 200)
    assert found.images.shape == made[2].images.shape
    assert (error(found, made[2]) < 1e-2).all()


def test_an_unknown_matching_is_refused():
    with pytest.raises(UserError, match="no matching 'unrolled': choose from gradient, prescribed"):
        NarrowMap(matching="unrolled")
