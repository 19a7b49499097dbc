"""IG end to end on real digits: quality, factors, labels, the box, and what is refused."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.base import NoTransform
from leaklab.attacks.adaptive.scale import ProfiledScale
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.ig import InvertingGradients
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.observations.base import Knowledge
from leaklab.observations.requirements import needs
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS = 3
BUDGET = Budget(iterations=200, restarts=1)
SHORT = Budget(iterations=4, restarts=2)
STREAMS = partial(stream, 0, "attack")
SMOOTH = plugins.load("attacks", "ig", {"total_variation": 1e-5})


@pytest.fixture(scope="module")
def granted(digits, knowledge):
    """Make a knowledge that grants range and labels; a fact set to None is withheld."""

    def grant(batch=1, **facts):
        labels = digits[1][: TRIALS * batch].view(TRIALS, batch).tolist()
        everything = {**knowledge.facts, "input_range": [0.0, 1.0], "labels": labels, "batch_size": batch, **facts}
        return Knowledge("test", {fact: value for fact, value in everything.items() if value is not None})

    return grant


@pytest.fixture(scope="module")
def seen(digits, observe):
    """Make the observation of the first digits, each gradient times a factor."""

    def make(factor=1.0, batch=1, dtype=torch.float64, **more):
        images, labels = (value[: TRIALS * batch].unflatten(0, (TRIALS, batch)) for value in digits)
        return observe(images.to(dtype), labels, [factor] * TRIALS, **more)

    return make


def errors_of(found, digits):
    images = digits[0][: found.labels.numel()].view_as(found.images)
    return ((found.images - images) ** 2).flatten(1).mean(1)


def test_f21_an_undefended_digit_is_recovered_far_better_than_by_the_mean_image(digits, seen, granted):
    found = SMOOTH.reconstruct(Case(seen(), granted(), BUDGET, STREAMS))
    mean_image = ((digits[0].mean(0) - digits[0][:TRIALS]) ** 2).flatten(1).mean(1)
    errors = errors_of(found, digits)
    assert (errors < mean_image / 10).all()
    assert errors.min() < 10**-2.5  # 25 dB
    assert torch.equal(found.labels, digits[1][:TRIALS, None])


def test_single_precision_is_enough_for_a_sigmoid_network(digits, seen, granted):
    """Where gradients of unlike images differ in angle by little, the matching must not drown in rounding."""
    found = InvertingGradients(total_variation=0.0).reconstruct(
        Case(seen(dtype=torch.float32), granted(), BUDGET, STREAMS)
    )
    assert found.images.dtype == torch.float32
    assert errors_of(found, digits).max() < 1e-5


def test_f6_a_hidden_factor_changes_not_a_bit(seen, granted):
    """Powers of two: other factors differ by their own rounding, which signs can amplify."""
    plain, scaled = (SMOOTH.reconstruct(Case(seen(factor), granted(), SHORT, STREAMS)) for factor in (1.0, 0.25))
    assert torch.equal(plain.images, scaled.images)
    assert plain.starts == scaled.starts


def test_f6_any_hidden_factor_leaves_the_quality(digits, seen, granted):
    transform = NoTransform()
    prepared, _ = transform.prepare(seen(3.7), granted())
    found = SMOOTH.reconstruct(Case(prepared, granted(), BUDGET, STREAMS, transform.distance))
    unhidden = SMOOTH.reconstruct(Case(seen(), granted(), BUDGET, STREAMS))
    assert torch.allclose(found.images, unhidden.images, atol=1e-3)


def test_f20_same_streams_same_bytes_and_the_loss_falls(seen, granted):
    first, second = (SMOOTH.reconstruct(Case(seen(), granted(), SHORT, STREAMS)) for _ in range(2))
    assert torch.equal(first.candidates, second.candidates)
    assert first.starts == second.starts
    shorter = SMOOTH.reconstruct(Case(seen(), granted(), replace(SHORT, iterations=1), STREAMS))
    assert (first.candidate_losses < shorter.candidate_losses).all()


def test_a_trial_keeps_its_number_and_ignores_its_neighbours(seen, granted):
    alone = SMOOTH.reconstruct(Case(seen().select([2]), granted(), SHORT, STREAMS))
    together = SMOOTH.reconstruct(Case(seen(), granted(), SHORT, STREAMS))
    assert torch.allclose(alone.images[0], together.images[2], rtol=0, atol=1e-9)
    assert [(start.trial, start.start) for start in alone.starts] == [(2, 0), (2, 1)]


def test_every_candidate_is_in_the_box_and_the_smallest_loss_is_chosen(seen, granted):
    found = SMOOTH.reconstruct(Case(seen(), granted(input_range=[0.2, 0.8]), SHORT, STREAMS))
    assert found.candidates.shape == (TRIALS, 2, 1, 1, 8, 8)
    assert found.candidates.min() >= 0.2
    assert found.candidates.max() <= 0.8
    chosen = found.candidates[torch.arange(TRIALS), found.candidate_losses.argmin(1)]
    assert torch.equal(found.images, chosen)
    unboxed = replace(SMOOTH, boxed=False).reconstruct(Case(seen(), granted(input_range=None), SHORT, STREAMS))
    assert unboxed.candidates.min() < 0


def test_the_prior_smooths(seen, granted):
    def roughness(weight):
        found = InvertingGradients(total_variation=weight).reconstruct(Case(seen(), granted(), BUDGET, STREAMS))
        return found.images.diff(dim=-1).abs().mean()

    assert roughness(1.0) < 0.1 * roughness(0.0)


def test_batches_are_attacked_with_their_labels(digits, seen, granted):
    found = InvertingGradients(total_variation=0.0).reconstruct(Case(seen(batch=2), granted(batch=2), BUDGET, STREAMS))
    assert found.images.shape == (TRIALS, 2, 1, 8, 8)
    assert torch.equal(found.labels, digits[1][: 2 * TRIALS].view(TRIALS, 2))
    assert errors_of(found, digits).max() < 1e-3


def test_the_bias_rule_needs_no_labels_and_one_sample(digits, seen, granted):
    attack = replace(SMOOTH, label_rule="bias")
    found = attack.reconstruct(Case(seen(2.0), granted(labels=None), SHORT, STREAMS))
    assert torch.equal(found.labels, digits[1][:TRIALS, None])
    assert torch.equal(found.images, SMOOTH.reconstruct(Case(seen(2.0), granted(), SHORT, STREAMS)).images)
    with pytest.raises(UserError, match="reads one label"):
        attack.reconstruct(Case(seen(batch=2), granted(batch=2), SHORT, STREAMS))


def test_another_distance_is_matched_in_units_that_the_prior_knows(digits, seen, granted):
    transform = ProfiledScale()
    found = SMOOTH.reconstruct(Case(seen(3.7), granted(), BUDGET, STREAMS, transform.distance))
    assert errors_of(found, digits).max() < 10**-2.5
    zero = InvertingGradients(total_variation=0.0)
    _, objective = zero._matching(Case(seen(), granted(), SHORT, STREAMS, profiled_scale), digits[1][:TRIALS, None])
    _, cosine = zero._matching(
        Case(seen(), granted(), SHORT, STREAMS, NoTransform().distance), digits[1][:TRIALS, None]
    )
    points, rows = stream(0, "points").uniform(TRIALS, 64), torch.arange(TRIALS)
    expected = 1 - (1 - cosine(points, rows)[0]) ** 2
    assert torch.allclose(objective(points, rows)[0], expected, rtol=1e-9)


def test_what_is_not_granted_is_asked_for(seen, granted):
    for fact in ("labels", "input_range", "input_shape"):
        with pytest.raises(UserError, match=f"needs '{fact}'"):
            SMOOTH.reconstruct(Case(seen(), granted(**{fact: None}), SHORT, STREAMS))


def test_what_it_needs_is_known_before_it_runs():
    assert {"labels", "input_range", "weights"} <= needs("ig", {})
    assert "labels" not in needs("ig", {"label_rule": "bias"})
    assert "input_range" not in needs("ig", {"boxed": False})
    assert isinstance(plugins.load("attacks", "ig", {"rate": 0.05}), InvertingGradients)


def test_refusals(seen, granted):
    with pytest.raises(UserError, match="transform"):
        SMOOTH.reconstruct(Case(seen(kind="delta"), granted(), SHORT, STREAMS))
    with pytest.raises(UserError, match="label_rule 'guess'"):
        replace(SMOOTH, label_rule="guess").reconstruct(Case(seen(), granted(), SHORT, STREAMS))
    with pytest.raises(UserError, match="weight"):
        replace(SMOOTH, total_variation=-1.0).reconstruct(Case(seen(), granted(), SHORT, STREAMS))
    with pytest.raises(UserError, match="restarts"):
        SMOOTH.reconstruct(Case(seen(), granted(), Budget(10, 0), STREAMS))
    with pytest.raises(UserError, match="not finite"):
        SMOOTH.reconstruct(Case(seen(float("inf")), granted(), SHORT, STREAMS))
