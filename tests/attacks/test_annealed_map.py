"""Annealed MAP: identities of its objective, the posterior of a linear victim, and what it finds in real captures."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.adaptive.noise import MatchedNoise
from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.dlg import ImprovedDeepLeakage
from leaklab.attacks.latents.posterior import outside, posterior_of
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.matching.distances import profiled_scale, squared_l2
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.affine import LogisticRegression
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.observations.base import Knowledge
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

SHAPE, CLASSES, PIXELS = (1, 8, 8), 10, 64
PUBLIC = 1000
STREAMS = partial(stream, 0, "attack")


@pytest.fixture(scope="module")
def generator(digits):
    """The Gaussians of the first digits; private ones come from the others."""
    return ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)


@pytest.fixture(scope="module")
def private(digits):
    """Images [N, 1, 8, 8] and labels [N] that the generator has not seen."""
    return digits[0][PUBLIC:], digits[1][PUBLIC:]


@pytest.fixture(scope="module")
def captured(digits):
    """Return observation, knowledge and truth of clients whose update a defense has changed."""
    images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
    dataset = Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], 0 * one, one)

    def make(defense="none", count=4, **fields):
        common = {"dataset": "digits", "images": {"count": count, "seed": 1}, "model": "dlg-lenet", "rate": 1.0}
        return capture(CaptureSpec.model_validate({**common, "defense": defense, **fields}), dataset)

    return make


def run(generator, captured, transform=None, iterations=100, restarts=1, **settings):
    """Attack a capture after a transform, None for no transform."""
    observation, knowledge, _ = captured
    if transform is not None:
        observation, _ = transform.prepare(observation, knowledge)
    distance = None if transform is None else transform.distance
    attack = AnnealedMap(**settings)
    return attack.reconstruct(
        Case(observation, knowledge, Budget(iterations, restarts), STREAMS, distance, generator=generator)
    )


def error(found, truth):
    """Mean squared errors [T]; images of a batch are paired in their order."""
    return ((found.clamp(0, 1) - truth.view_as(found)) ** 2).flatten(1).mean(1)


def known(knowledge, labels, **facts):
    return Knowledge("any", {**knowledge.facts, "labels": labels.tolist(), "batch_size": labels.shape[1], **facts})


class TestPosterior:
    """Two trials of two images whose latents are known."""

    LABELS = torch.tensor([[3, 3], [0, 7]])

    @pytest.fixture(scope="class")
    def latents(self):
        return stream(0, "truth").normal(2, 2 * PIXELS)

    @pytest.fixture(scope="class")
    def make(self, generator, observe, knowledge, latents):
        classes = F.one_hot(self.LABELS, CLASSES).double()
        images = deepcopy(generator).double().generate(latents.view(-1, PIXELS), classes.flatten(0, 1))
        observation = observe(images.view(2, 2, *SHAPE), self.LABELS)

        def build(weight=1.0, box=0.0, distance=squared_l2):
            facts = known(knowledge, self.LABELS)
            scene = scene_of("the test", generator, observation, facts, distance)
            return posterior_of(scene, self.LABELS, box).weighted(torch.full((2,), weight).double())

        return build

    @pytest.mark.parametrize("distance", [squared_l2, profiled_scale])
    def test_at_the_truth_nothing_is_left_but_the_prior(self, make, latents, distance):
        """However narrow the likelihood: its part is zero there, and so is its slope."""
        value, slope = make(weight=1e9, distance=distance)(latents, torch.arange(2))
        assert torch.allclose(value, (latents**2).sum(1) / 2, rtol=1e-6)
        assert torch.allclose(slope, latents, atol=1e-3)

    def test_the_box_counts_what_leaves_the_range(self, make, latents):
        plain, boxed = (make(box=box)(latents, torch.arange(2))[0] for box in (0.0, 5.0))
        images = make().images(latents, torch.arange(2))
        assert torch.allclose(boxed - plain, 5 * outside(images))
        assert outside(torch.tensor([[-1.0, 0.5, 3.0], [0.0, 1.0, 0.5]])).tolist() == [5.0, 0.0]

    @pytest.mark.parametrize("distance", [squared_l2, profiled_scale])
    def test_the_derivative_is_that_of_the_value(self, make, distance):
        posterior, rows = make(weight=3.0, box=7.0, distance=distance), torch.arange(2)
        points, direction = (stream(number, "z").normal(2, 2 * PIXELS) for number in (1, 2))
        step = 1e-5
        ahead, behind = (posterior(points + sign * step * direction, rows)[0] for sign in (1, -1))
        slope = (posterior(points, rows)[1] * direction).sum(1)
        assert torch.allclose((ahead - behind) / (2 * step), slope, rtol=1e-5)

    def test_rows_may_come_in_any_order_and_number(self, make):
        posterior, points = make(box=1.0), stream(1, "z").normal(3, 2 * PIXELS)
        together = posterior(points, torch.tensor([1, 0, 1]))[0]
        alone = [posterior(points[[place]], torch.tensor([row]))[0] for place, row in enumerate((1, 0, 1))]
        assert torch.allclose(together, torch.cat(alone))


@pytest.mark.parametrize("sigma", [0.01, 0.3])
def test_of_a_linear_victim_it_finds_the_mean_of_the_gaussian_posterior(generator, observe, private, knowledge, sigma):
    """With zero weights a logistic regression's gradient is d x', d = 1/K - e_y: linear in the image x.

    Then the posterior of the latent is a Gaussian, and its mean solves (1 + |d|^2 L'L / sigma^2) z = L' r / sigma^2
    with r = sum over classes k of d_k (o_k - d_k m).
    """
    network = LogisticRegression().initialised(SHAPE, CLASSES, 0, torch.float64)
    for parameter in network.parameters():
        parameter.data.zero_()
    images, labels = private[0][:3], private[1][:3, None]
    observation = observe(images[:, None], labels, network=network)
    noise = {name: sigma * stream(0, name).normal(*value.shape) for name, value in observation.update.items()}
    noisy = {name: value + noise[name] for name, value in observation.update.items()}
    observation = replace(observation, update=noisy, model={"name": "logistic-regression", "settings": {}})
    attack = AnnealedMap(label_rule="known", box=0.0)
    given, distance = known(knowledge, labels), MatchedNoise(sigma=sigma).distance
    found = attack.reconstruct(Case(observation, given, Budget(200, 1), STREAMS, distance, generator=generator))
    for row, label in enumerate(labels[:, 0].tolist()):
        slope = torch.full((CLASSES,), 1 / CLASSES).double()
        slope[label] -= 1
        mean, factor = generator.mean[label].double(), generator.factor[label].double()
        rest = slope @ (noisy["fc.weight"][row] - slope[:, None] * mean)
        matrix = torch.eye(PIXELS).double() + (slope @ slope) / sigma**2 * factor.T @ factor
        expected = torch.linalg.solve(matrix, factor.T @ rest / sigma**2)
        assert torch.allclose(found.latents[row, 0], expected, atol=1e-4)


def test_an_undefended_update_is_inverted_and_so_is_one_with_a_hidden_factor(generator, captured):
    exact = captured(dtype="float32")
    found = run(generator, exact)
    assert float(error(found.images, exact[2].images).max()) < 1e-4
    assert found.images.dtype == torch.float64
    assert torch.equal(found.labels, exact[2].labels.view(-1, 1))
    hidden = captured("lrp", dtype="float32")
    assert torch.equal(hidden[2].images, exact[2].images)
    freed = run(generator, hidden, plugins.load("attacks/adaptive", "profiled-scale"))
    assert float(error(freed.images, hidden[2].images).max()) < 1e-4
    assert torch.equal(freed.labels, found.labels)
    misled = run(generator, hidden, label_rule="bias")
    assert float(error(misled.images, hidden[2].images).min()) > 1e-3


def test_under_compression_the_prior_leads_where_the_plain_search_is_lost(generator, captured):
    pruned = captured({"name": "gradient-compression", "dropped": 0.9})
    transform = plugins.load("attacks/adaptive", "support-only")
    found = run(generator, pruned, transform)
    plain = ImprovedDeepLeakage(label_rule="bias").reconstruct(
        Case(transform.prepare(*pruned[:2])[0], pruned[1], Budget(60, 2), STREAMS, transform.distance)
    )
    ours, theirs = (error(one.images, pruned[2].images) for one in (found, plain))
    assert float(ours.max()) < 2e-3
    assert float(ours.mean()) < float(theirs.mean()) / 10
    assert torch.equal(found.labels, pruned[2].labels.view(-1, 1))


@pytest.mark.parametrize("defense", [
    {"name": "additive-noise", "sigma": 0.02}, {"name": "clipping-noise", "sigma": 0.01, "bound": 2.0},
], ids=lambda defense: defense["name"])  # fmt: skip
def test_under_noise_it_is_nearer_than_the_mean_of_the_class(generator, captured, defense):
    noisy = captured(defense)
    settings = {key: value for key, value in defense.items() if key != "name"}
    found = run(generator, noisy, MatchedNoise(**settings))
    assert torch.equal(found.labels, noisy[2].labels.view(-1, 1))
    means = generator.mean.double()[found.labels[:, 0]]
    ours, mean = (error(images, noisy[2].images).mean() for images in (found.images, means.view_as(found.images)))
    assert float(ours) < 0.7 * float(mean)
    # one stage: the law of the noise is known
    assert max(start.evaluations for start in found.starts) <= 101


class TestBatches:
    """Four digits of two classes in one update."""

    @pytest.fixture(scope="class")
    def batch(self, private, observe, knowledge):
        images, labels = private
        ones, nines = (images[labels == label][:2] for label in (1, 9))
        truth, classes = torch.cat([ones, nines])[None], torch.tensor([[1, 1, 9, 9]])
        return observe(truth, classes), known(knowledge, classes), truth

    @pytest.mark.parametrize(("rule", "transform"), [("counts", None), ("unmixed", "profiled-scale")])
    def test_equal_labels_are_counted_and_told_apart(self, generator, batch, rule, transform):
        if transform:
            transform = plugins.load("attacks/adaptive", transform)
            batch = batch[0].scaled(1.7), *batch[1:]
        found = run(generator, batch, transform, iterations=150, label_rule=rule)
        assert found.labels.tolist() == [[1, 1, 9, 9]]
        truth, images = batch[2][0].flatten(1), found.images[0].flatten(1).clamp(0, 1)
        costs = ((images[:, None] - truth) ** 2).mean(2)
        # within a class either order will do
        pairs = [min(block.trace(), block.fliplr().trace()) for block in (costs[:2, :2], costs[2:, 2:])]
        means = generator.mean.double()[[1, 1, 9, 9]]
        assert float(sum(pairs)) / 4 < 0.1 * float(((means - truth) ** 2).mean())

    def test_no_start_has_equal_images(self, generator, batch):
        """From equal points the images of one class would never part."""
        found = run(generator, batch, iterations=1, stages=1, label_rule="known")
        assert not torch.allclose(found.latents[0, 0], found.latents[0, 1], atol=1e-3)

    def test_a_rule_for_one_label_is_refused(self, generator, batch):
        with pytest.raises(UserError, match="use label_rule: counts, unmixed or known"):
            run(generator, batch)


class TestContract:
    """What every attack has to return; a short search will do."""

    @pytest.fixture(scope="class")
    def observed(self, private, observe, knowledge):
        images, labels = private[0][:3, None], private[1][:3, None]
        return observe(images, labels), known(knowledge, labels), images

    @pytest.fixture(scope="class")
    def found(self, generator, observed):
        return run(generator, observed, iterations=5, restarts=3)

    def test_shapes_and_records(self, found):
        assert found.images.shape == (3, 1, *SHAPE)
        assert found.candidates.shape == (3, 3, 1, *SHAPE)
        assert found.latents.shape == (3, 1, PIXELS)
        assert found.images.dtype == torch.float64
        assert [(start.trial, start.start) for start in found.starts] == [(t, r) for t in range(3) for r in range(3)]
        losses = [start.matching_loss for start in found.starts]
        assert losses == pytest.approx(found.candidate_losses.flatten().tolist())
        assert {start.stopped for start in found.starts} == {"budget"}
        assert {start.evaluations for start in found.starts} == {6 * 6}

    def test_the_start_of_the_largest_posterior_is_chosen(self, found):
        best = found.candidate_losses.argmin(1)
        assert torch.equal(found.images, found.candidates[torch.arange(3), best])

    def test_the_latents_are_those_of_the_images(self, generator, found):
        classes = F.one_hot(found.labels[:, 0], CLASSES).float()
        again = generator.generate(found.latents[:, 0].float(), classes)
        assert torch.allclose(again.double(), found.images[:, 0], atol=1e-5)

    def test_it_is_a_function_of_its_streams(self, generator, observed, found):
        state = torch.get_rng_state()
        again = run(generator, observed, iterations=5, restarts=3)
        assert torch.equal(state, torch.get_rng_state())
        assert torch.equal(again.candidates, found.candidates)
        assert again.starts == found.starts

    def test_a_trial_does_not_depend_on_its_neighbours(self, generator, observed, found):
        alone = run(generator, (observed[0].select([1]), *observed[1:]), iterations=5, restarts=3)
        assert alone.starts[0].trial == 1
        assert torch.allclose(alone.candidates[0], found.candidates[1], rtol=1e-9, atol=1e-12)

    def test_a_start_does_not_depend_on_how_many_there_are(self, generator, observed, found):
        fewer = run(generator, observed, iterations=5, restarts=1)
        assert torch.allclose(fewer.candidates[:, 0], found.candidates[:, 0], rtol=1e-9, atol=1e-12)

    def test_a_single_image_starts_at_the_mean_of_its_class(self, generator, observed):
        found = run(generator, observed, iterations=1, stages=1, coarsest=1e3, finest=1e3, box=0.0)
        means = generator.mean.double()[found.labels[:, 0]]
        assert torch.allclose(found.images.flatten(1), means, atol=1e-6)

    def test_the_generator_is_left_as_it_was(self, generator, found):
        assert {parameter.dtype for parameter in generator.parameters()} == {torch.float32}
        assert found is not None

    def test_a_victim_that_takes_other_values_gets_the_images_on_its_scale(
        self, generator, private, observe, knowledge
    ):
        truth, labels = 2 * private[0][:2, None] - 1, private[1][:2, None]
        given = known(knowledge, labels, input_range=[-1.0, 1.0])
        found = run(generator, (observe(truth, labels), given, truth))
        assert float(((found.images - truth) ** 2).mean()) < 1e-4

    def test_what_the_client_keeps_to_itself_is_left_out(self, generator, observed):
        observation, given, truth = observed
        hidden = replace(observation, update=dict(list(observation.update.items())[:-2]))
        found = run(generator, (hidden, given, truth))
        assert float(error(found.images, truth).median()) < 1e-3
        with pytest.raises(UserError, match="keeps its last layer to itself"):
            run(generator, (hidden, given, truth), label_rule="counts")

    def test_another_generator_will_do(self, observed, waves):
        found = run(waves(), observed, iterations=2)
        assert found.latents.shape == (3, 1, 4)
        assert bool(found.candidate_losses.isfinite().all())

    def test_an_update_of_zeros_ends_as_diverged_at_the_mean(self, generator, observed):
        nothing = observed[0].scaled(torch.tensor([1.0, 0.0, 1.0]))
        found = run(generator, (nothing, *observed[1:]), iterations=2, label_rule="known")
        assert [start.stopped for start in found.starts] == ["budget", "diverged", "budget"]
        assert bool(found.images.isfinite().all())
        assert torch.allclose(found.images[1].flatten(), generator.mean[found.labels[1, 0]].double(), atol=1e-6)


def test_what_cannot_be_attacked_is_refused(generator, private, observe, knowledge):
    images, labels = private[0][:2, None], private[1][:2, None]
    observation, given = observe(images, labels), known(knowledge, labels)

    def attempt(generator=generator, observation=observation, **settings):
        run(generator, (observation, given, images), iterations=1, **settings)

    with pytest.raises(UserError, match="matches gradients: choose a transform"):
        attempt(observation=observe(images, labels, kind="delta"))
    with pytest.raises(UserError, match="not finite"):
        attempt(observation=observation.scaled(torch.nan))
    with pytest.raises(UserError, match="the generator makes 3x8x8 images"):
        attempt(ConditionalGan(4, 2, 2).generator((3, 8, 8), CLASSES).frozen())
    with pytest.raises(UserError, match="training state"):
        attempt(ClassGaussian().generator(SHAPE, CLASSES))
    with pytest.raises(UserError, match="choose from likelihood, bias, row-sum, distinct, counts, unmixed, known"):
        attempt(label_rule="guess")
    with pytest.raises(UserError, match="from coarsest down to finest"):
        AnnealedMap(coarsest=1e-6)
