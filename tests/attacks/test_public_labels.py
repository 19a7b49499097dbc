"""Labels that public images help to read: equations that hold exactly, and labels of real digits."""

from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.emulation import after_clipping
from leaklab.attacks.labels.public import labels_of, likeliest_labels, public_images
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.matching.distances import profiled_scale, squared_l2
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

CLASSES, PUBLIC = 10, 1000


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES).double()


@pytest.fixture(scope="module")
def means(generator):
    return generator.mean.detach().view(CLASSES, 1, 8, 8)


@pytest.fixture(scope="module")
def victim(network_of):
    return network_of().requires_grad_(requires_grad=False)


@pytest.mark.parametrize(("rule", "factor"), [("counts", 1.0), ("unmixed", 1.7)])
def test_batches_of_digits_with_equal_labels_are_read_by_public_images(
    digits, observe, knowledge, generator, rule, factor
):
    """100 labels in 25 batches of four drawn digits."""
    rows = PUBLIC + stream(0, "rows").permutation(len(digits[0]) - PUBLIC)[:100].view(25, 4)
    labels = digits[1][rows].sort(1).values
    rows = rows.gather(1, digits[1][rows].argsort(1))
    assert bool((labels.diff(dim=1) == 0).any())
    observation = observe(digits[0][rows], labels, [factor] * 25)
    given = Knowledge("any", {**knowledge.facts, "batch_size": 4})
    distance = squared_l2 if rule == "counts" else profiled_scale
    scene = scene_of("the test", generator.frozen(), observation, given, distance)
    assert float((labels_of(scene, rule, partial(stream, 0)) == labels).double().mean()) > 0.95


def test_public_images_are_as_many_of_each_class_in_turn(digits, observe, knowledge, generator):
    scene = scene_of("it", generator.frozen(), observe(digits[0][:1, None], digits[1][:1, None]), knowledge, squared_l2)
    images = public_images(scene, partial(stream, 0)).view(-1, CLASSES, 64)
    spread = images.std(0).mean()
    assert bool(((images.mean(0) - generator.mean).norm(dim=1) < 8 * spread).all())
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1


@pytest.mark.parametrize("distance", [squared_l2, profiled_scale])
def test_the_likeliest_class_is_that_of_the_digit(digits, observe, victim, means, distance):
    images, labels = digits[0][PUBLIC : PUBLIC + 40, None], digits[1][PUBLIC : PUBLIC + 40, None]
    factors = [3.0 if distance is profiled_scale else 1.0] * 40
    observed = list(observe(images, labels, factors).update.values())
    assert float((likeliest_labels(victim, means, observed, distance) == labels).double().mean()) > 0.95


def test_the_mean_of_a_class_is_read_as_its_own_and_what_is_not_finite_is_passed_over(observe, victim, means):
    labels = torch.arange(CLASSES)[:, None]
    observed = list(observe(means[:, None], labels).update.values())
    assert torch.equal(likeliest_labels(victim, means, observed, squared_l2), labels)

    def nan_for_the_first(gradients, targets):
        value, residuals, factor = squared_l2(gradients, targets)
        mine = torch.equal(gradients[0][0], observed[0][0])
        return (value * torch.nan if mine else value), residuals, factor

    assert torch.equal(likeliest_labels(victim, means, observed, nan_for_the_first)[1:], labels[1:])


def test_rules_that_do_not_fit_are_refused(digits, observe, knowledge, generator):
    images, labels = digits[0][:4].view(2, 2, 1, 8, 8), digits[1][:4].view(2, 2)
    given = Knowledge("any", {**knowledge.facts, "batch_size": 2})

    def attempt(rule, distance=squared_l2):
        scene = scene_of("it", generator.frozen(), observe(images, labels), given, distance)
        return labels_of(scene, rule, partial(stream, 0))

    assert attempt("counts").shape == attempt("unmixed", profiled_scale).shape == (2, 2)
    for distance in (profiled_scale, after_clipping):
        with pytest.raises(UserError, match="'counts' needs the scale of the gradient"):
            attempt("counts", distance)
    with pytest.raises(UserError, match="'likelihood' reads one label: use label_rule: counts, unmixed or known"):
        attempt("likelihood")
    with pytest.raises(UserError, match="it has no label_rule 'guess': choose from likelihood, bias"):
        attempt("guess")
    with pytest.raises(UserError, match="needs 'labels', which threat model 'any' withholds"):
        attempt("known")
