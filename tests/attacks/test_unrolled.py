"""Unrolled local steps with free rates: the capture is met to the last digits, and images and rates come out."""

from functools import partial

import pytest
import torch

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.posterior import posterior_of
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.latents.unrolled import unrolled_posterior
from leaklab.attacks.matching.distances import squared_l2, squared_norm
from leaklab.attacks.matching.steps import simulated_delta
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations import requirements
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

PUBLIC, PIXELS, CLASSES = 1000, 64, 10
STEPS, RATE = 4, 0.01


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)


@pytest.fixture(scope="module")
def captured(digits):
    """Return observation, knowledge and truth of clients under LRP: four large steps on one batch."""
    images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
    dataset = Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], 0 * one, one)

    def make(**fields):
        common = {"dataset": "digits", "images": {"count": 2, "seed": 1}, "model": "dlg-lenet", "defense": "lrp"}
        common |= {"local_steps": STEPS, "rate": RATE, "threat_model": "honest-but-curious-with-labels"}
        return capture(CaptureSpec.model_validate(common | fields), dataset)

    return make


def posterior_at(captured, generator, weight=1.0, client_factor=1.0, **fields):
    """Return the posterior and the point [T, n] of the true images and rates."""
    observation, knowledge, truth = captured(**fields)
    scene = scene_of("the test", generator, observation.as_gradient(knowledge), knowledge, squared_l2)
    posterior = unrolled_posterior(scene, truth.labels, 0.0, client_factor)
    factor, mean = (getattr(scene.generator, name).detach()[truth.labels] for name in ("factor", "mean"))
    images = truth.images.double().flatten(2)
    latents = torch.linalg.solve(factor, (images - mean)[..., None])[..., 0].flatten(1)
    rates = truth.rates / (RATE * client_factor)
    point = torch.cat([latents, rates - 1], 1)
    return posterior.weighted(torch.full((len(point),), weight).double()), point, scene


@pytest.mark.parametrize("fields", [{}, {"batch_size": 2}, {"rate_schedule": "inverse", "kind": "delta"}])
def test_with_the_true_images_and_rates_the_simulation_is_the_capture(captured, fields):
    observation, knowledge, truth = captured(**fields)
    network = plugins.load("models", "dlg-lenet").initialised((1, 8, 8), CLASSES, 0, torch.float64).eval()
    targets = torch.nn.functional.one_hot(truth.labels, CLASSES).double()
    found = list(simulated_delta(network, truth.images, targets, truth.rates).values())
    seen = observation.update.values()
    if observation.kind == "gradient":
        seen = [-knowledge.assumed_rate() * value for value in seen]
    off = squared_norm([f - s for f, s in zip(found, seen, strict=True)]).sqrt()
    assert (off < 1e-12 * squared_norm(found).sqrt()).all()


SGD = {"name": "sgd", "settings": {"momentum": 0.9}}


@pytest.mark.parametrize("fields", [
    {}, {"batch_size": 2}, {"client_weight": 2.0, "client_factor": 2.0}, {"optimizer": SGD}, {"weight_decay": 0.01},
])  # fmt: skip
def test_at_the_truth_nothing_is_left_but_the_prior(captured, generator, fields):
    posterior, point, _ = posterior_at(captured, generator, weight=1e3, **fields)
    value, slope = posterior(point, torch.arange(len(point)))
    latents = point[:, :-STEPS]
    assert torch.allclose(value, (latents**2).sum(1) / 2, rtol=1e-6)
    assert torch.allclose(slope, torch.cat([latents, torch.zeros_like(point[:, -STEPS:])], 1), atol=5e-3)


def test_the_derivative_is_that_of_the_value_also_where_a_rate_leaves_its_interval(captured, generator):
    posterior, point, _ = posterior_at(captured, generator, weight=1e-2)
    point = point + 0.1 * stream(1, "z").normal(*point.shape)
    point[:, -STEPS:] = torch.tensor([-1.2, 1.3, 0.1, -0.3])
    direction, rows, step = stream(2, "z").normal(*point.shape), torch.arange(2), 1e-6
    ahead, behind = (posterior(point + sign * step * direction, rows)[0] for sign in (1, -1))
    slope = (posterior(point, rows)[1] * direction).sum(1)
    assert torch.allclose((ahead - behind) / (2 * step), slope, rtol=1e-5)


def test_of_one_step_at_the_nominal_rate_it_is_the_posterior_of_the_gradient(captured, generator):
    posterior, point, scene = posterior_at(captured, generator, local_steps=1)
    plain = posterior_of(scene, posterior.inversion.samples.labels, 0.0)
    point[:, -1] = 0
    found, expected = posterior(point, torch.arange(2)), plain(point[:, :-1], torch.arange(2))
    assert torch.allclose(found[0], expected[0])
    assert torch.allclose(found[1][:, :-1], expected[1])


def test_rates_outside_their_law_cost(captured, generator):
    """By 1e3 times the squares by which they leave [0, 2]; the steps are simulated at the nearest end."""
    posterior, point, _ = posterior_at(captured, generator)
    inside, outside = point.clone(), point.clone()
    inside[:, -1], outside[:, -1] = 1.0, 1.5
    rows = torch.arange(2)
    assert torch.allclose(posterior(outside, rows)[0] - posterior(inside, rows)[0], torch.tensor(250.0).double())


def run(generator, captured, transform="none", **settings):
    observation, knowledge, _ = captured
    transform = plugins.load("attacks/adaptive", transform)
    prepared, _ = transform.prepare(observation, knowledge)
    attack = AnnealedMap(coarsest=1e-2, stages=7, **settings)
    return attack.reconstruct(
        Case(prepared, knowledge, Budget(60, 1), partial(stream, 0, "attack"), transform.distance, generator=generator)
    )


def test_large_steps_at_hidden_rates_are_inverted_where_one_gradient_is_not(generator, captured):
    """Labels are read as well, although nobody knows how long the gradient is."""
    seen = captured(rate=0.1)
    truth = seen[2].images.double()
    found = [run(generator, seen, matching="unrolled"), run(generator, seen, "profiled-scale")]
    assert torch.equal(found[0].labels, seen[2].labels)
    ours, theirs = (((one.images.clamp(0, 1) - truth) ** 2).flatten(1).mean(1) for one in found)
    assert float(ours.max()) < 1e-3
    assert float(ours.mean()) < float(theirs.mean()) / 5


def test_what_it_asks_for_is_declared_and_what_it_cannot_do_refused(generator, captured):
    requirements.check("annealed-map", {}, "blind-rate", "profiled-scale", kind="delta")
    with pytest.raises(UserError, match="needs 'nominal_rate'"):
        requirements.check("annealed-map", {"matching": "unrolled"}, "blind-rate", "profiled-scale", kind="delta")
    observation, knowledge, truth = captured()
    averaged = Knowledge("any", {**knowledge.facts, "rounds": 3})
    with pytest.raises(UserError, match="mean of 3 rounds"):
        run(generator, (observation, averaged, truth), matching="unrolled")
    with pytest.raises(UserError, match="choose from gradient, unrolled"):
        AnnealedMap(matching="rolled")
