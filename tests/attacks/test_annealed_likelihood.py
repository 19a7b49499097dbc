"""Annealed likelihood: what it finds in captures under OUTPOST, Laplace noise and GradDefense, and what it refuses."""

from functools import partial

import pytest
import torch
from scipy import stats

from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.matching.steps import at_mean_weights
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

PUBLIC = 1000
STREAMS = partial(stream, 0, "attack")


@pytest.fixture(scope="module")
def generator(digits):
    """The Gaussians of the first digits, some of which are kept; private ones come from the others."""
    return ClassGaussian(kept=50).fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], 10)


@pytest.fixture(scope="module")
def captured(digits):
    images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
    dataset = Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], 0 * one, one)

    def make(defense, initialisation="wide", count=2, **fields):
        model = {"name": "dlg-lenet", "settings": {"initialisation": initialisation}}
        common = {"dataset": "digits", "images": {"count": count, "seed": 1}, "model": model}
        return capture(CaptureSpec.model_validate({**common, "defense": defense, **fields}), dataset)

    return make


def run(generator, captured, transform, iterations=30, restarts=1, **settings):
    """Attack a capture after a transform that has read the facts."""
    observation, knowledge, _ = captured
    loaded = plugins.load("attacks/adaptive", transform).informed(knowledge)
    prepared, _ = loaded.prepare(observation, knowledge)
    attack = AnnealedLikelihood(**settings)
    return attack.reconstruct(
        Case(prepared, knowledge, Budget(iterations, restarts), STREAMS, loaded.distance, generator=generator)
    )


def errors(found, captured, generator):
    """Return the mean squared error over the trials, and that of the mean image of the right class."""
    images, labels = captured[2].images.flatten(1), captured[2].labels.flatten()
    means = generator.mean.double()[labels]
    return [float(((one.clamp(0, 1).flatten(1) - images) ** 2).mean()) for one in (found.images, means)]


@pytest.mark.parametrize("initialisation", ["wide", "pytorch"])
def test_outpost_is_read_at_both_initialisations(generator, captured, initialisation):
    seen = captured("outpost", initialisation)
    found = run(generator, seen, "ranked-mixture")
    ours, mean = errors(found, seen, generator)
    assert torch.equal(found.labels.flatten(), seen[2].labels.flatten())
    assert ours < mean / 3


def test_pruning_without_noise_is_undone(generator, captured):
    seen = captured({"name": "outpost", "settings": {"parts": "prune"}})
    ours, mean = errors(run(generator, seen, "ranked-mixture"), seen, generator)
    assert ours < mean / 50


def test_steps_that_were_not_perturbed_are_read_too(generator, captured):
    seen = captured("outpost", count=1, local_steps=4, rate=1e-4)
    assert not any(bool((value == 0).all()) for value in seen[0].update.values())
    ours, mean = errors(run(generator, seen, "ranked-mixture", stages=3, finest=0.01), seen, generator)
    assert ours < mean / 10


@pytest.mark.parametrize("rounds", [1, 5])
def test_the_law_is_that_of_the_defense(rounds):
    """Half a chi-squared variable of the entries that are not zero, at the gradient of the client without defense.

    Large images of noise leave no entry of the gradient at zero, whose rank would be anybody's guess.
    """
    images, one = (256 * stream(3, "noise").uniform(8, 1, 28, 28)).to(torch.uint8), torch.ones(1)
    dataset = Dataset("digits", 10, images, torch.arange(8), images, torch.arange(8), 0 * one, one)
    spec = {"dataset": "digits", "images": {"count": 8}, "model": "dlg-lenet"}
    seen, plain = (
        capture(CaptureSpec.model_validate({**spec, "defense": defense, "rounds": number}), dataset)
        for defense, number in (("outpost", rounds), ("none", 1))
    )
    law = plugins.load("attacks/adaptive", "ranked-mixture").informed(seen[1]).distance
    observed, gradients = (list(one[0].update.values()) for one in (seen, plain))
    twice = 2 * law.widened(1e-7, seen[0].weights)(gradients, observed)[0]
    changed = torch.stack([(o != 0).flatten(1).sum(1) for o in observed]).sum(0)
    assert stats.kstest(twice.numpy(), stats.chi2(int(changed[0])).cdf).pvalue > 0.01


def test_laplace_noise_and_grad_defense(generator, captured):
    noisy = captured({"name": "laplace-noise", "settings": {"variance": 1e-3}})
    ours, mean = errors(run(generator, noisy, "matched-laplace", finest=0.01), noisy, generator)
    assert ours < mean / 2
    sliced = captured("grad-defense")
    ours, mean = errors(run(generator, sliced, "sliced-mixture"), sliced, generator)
    assert ours < mean / 50


def test_trials_do_not_touch_each_other_and_starts_are_kept_apart(generator, captured):
    seen = captured("outpost", count=2)
    together = run(generator, seen, "ranked-mixture", iterations=10, restarts=2)
    alone = run(generator, (seen[0].select([1]), *seen[1:]), "ranked-mixture", iterations=10, restarts=2)
    assert together.candidates.shape[:2] == (2, 2)
    assert torch.allclose(together.images[1], alone.images[0], atol=1e-8)
    assert len(together.starts) == 4


def test_the_nearest_public_images_may_take_the_prior_over(generator, captured):
    seen = captured("outpost", count=1)
    plain, refined = (
        run(generator, seen, "ranked-mixture", iterations=20, refinements=number, neighbours=40) for number in (0, 1)
    )
    assert refined.latents is None
    assert refined.evaluations() > plain.evaluations()


class TestMeanWeights:
    def test_there_the_gradient_is_nearer_to_the_mean_of_the_steps(self, captured, digits):
        seen = captured("none", count=1, local_steps=4, rate=0.05)
        moved = at_mean_weights(seen[0], seen[1], "the test")
        image, label = seen[2].images.float().view(1, 1, 8, 8), seen[2].labels.view(1)
        network = plugins.load("models", "dlg-lenet").build((1, 8, 8), 10)

        def distance(weights):
            network.load_state_dict(dict(weights))
            loss = torch.nn.functional.cross_entropy(network(image), label)
            gradients = torch.autograd.grad(loss, list(network.parameters()))
            pairs = zip(gradients, seen[0].update.values(), strict=True)
            return sum(float(((g - o[0]) ** 2).sum()) for g, o in pairs)

        assert distance(moved.weights) < distance(seen[0].weights) / 5

    def test_one_step_has_no_other(self, generator, captured):
        seen = captured("outpost", count=1)
        sent, mean = (run(generator, seen, "ranked-mixture", iterations=5, place=place) for place in ("sent", "mean"))
        assert torch.allclose(sent.images, mean.images, atol=1e-8)


class TestRefusals:
    def test_a_distance_without_a_likelihood(self, generator, captured):
        observation, knowledge, _ = captured("none", count=1)
        for distance in (None, squared_l2):
            with pytest.raises(UserError, match="needs a transform with a likelihood"):
                AnnealedLikelihood().reconstruct(
                    Case(observation, knowledge, Budget(1, 1), STREAMS, distance, generator=generator)
                )

    def test_another_attack_with_such_a_transform(self, generator, captured):
        observation, knowledge, _ = captured("outpost", count=1)
        law = plugins.load("attacks/adaptive", "ranked-mixture").informed(knowledge).distance
        with pytest.raises(UserError, match="choose attack annealed-likelihood"):
            AnnealedMap().reconstruct(Case(observation, knowledge, Budget(1, 1), STREAMS, law, generator=generator))

    @pytest.mark.parametrize(("settings", "message"), [
        ({"coarsest": 0.01, "finest": 0.1}, "from coarsest down"), ({"neighbours": 1}, "at least two"),
        ({"place": "end"}, "sent, mean"),
    ], ids=["ladder", "neighbours", "place"])  # fmt: skip
    def test_settings_that_cannot_be(self, settings, message):
        with pytest.raises(UserError, match=message):
            AnnealedLikelihood(**settings)

    def test_two_restarts_of_a_refined_search(self, generator, captured):
        with pytest.raises(UserError, match="refines a single guess"):
            run(generator, captured("outpost", count=1), "ranked-mixture", 1, 2, refinements=1, neighbours=40)
