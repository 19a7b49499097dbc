"""Planted solutions: the private image is one that the generator can make, so the truth has a latent."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.ggl import GenerativeGradientLeakage, ggl_search
from leaklab.attacks.latents.landscape import LatentMatching, prior_divergence
from leaklab.attacks.matching.distances import profiled_scale, squared_l2, squared_norm
from leaklab.attacks.search.latent import AdamSettings, adam_search
from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.models.generators.training import GanTraining, train_generator
from leaklab.models.resnets import SmallResNet
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, LATENT, TRIALS = (1, 8, 8), 10, 4, 3
STREAMS = partial(stream, 0, "attack")
CMA = GenerativeGradientLeakage(population=16, squash=False)


@pytest.fixture(scope="module")
def generator(waves):
    return waves()


@pytest.fixture(scope="module")
def planted(generator):
    """Latents from the prior, labels and images [T, 1, 1, 8, 8]."""
    latents = stream(0, "truth").normal(TRIALS, LATENT)
    labels = torch.tensor([3, 0, 7])
    return latents, labels, generator.generate(latents, F.one_hot(labels, CLASSES).double())[:, None]


@pytest.fixture(scope="module")
def observation(planted, observe):
    return observe(planted[2], planted[1][:, None])


@pytest.fixture(scope="module")
def matching_of(generator, observation, planted, network_of):
    network = network_of().requires_grad_(requires_grad=False)

    def make(rows=range(TRIALS), distance=squared_l2, factor=1.0, penalty=0.0):
        rows = list(rows)
        observed = [factor * value[rows] for value in observation.update.values()]
        return LatentMatching(generator, network, observed, planted[1][rows], distance, penalty)

    return make


def search_of(matching, trials=range(TRIALS), generations=40, restarts=1, settings=CMA):
    return ggl_search(matching, tuple(trials), Budget(generations, restarts), STREAMS, settings)


def error(images, truth):
    return ((images - truth) ** 2).flatten(1).mean(1)


def test_the_truth_has_loss_zero_and_a_zero_derivative(matching_of, planted):
    rows = torch.arange(TRIALS)
    for distance in (squared_l2, profiled_scale):
        matching = matching_of(distance=distance)
        assert float(matching.evaluate(planted[0], rows)[0].abs().max()) < 1e-12
        losses, derivative = matching(planted[0], rows)
        assert float(losses.abs().max()) < 1e-12
        assert float(derivative.abs().max()) < 1e-5


def test_the_loss_is_the_distance_divided_by_the_number_of_tensors(matching_of, generator, observe, planted):
    latents, rows = stream(1, "z").normal(TRIALS, LATENT), torch.arange(TRIALS)
    images = generator.generate(latents, F.one_hot(planted[1], CLASSES).double())[:, None]
    slow = list(observe(images, planted[1][:, None]).update.values())
    matching = matching_of()
    expected = squared_l2(slow, matching.observed)[0] / len(slow)
    assert torch.allclose(matching.evaluate(latents, rows)[0], expected, rtol=1e-10)
    assert torch.allclose(matching(latents, rows)[0], expected, rtol=1e-10)


def test_the_derivative_is_that_of_the_loss(matching_of):
    matching, rows = matching_of(penalty=0.3), torch.arange(TRIALS)
    latents, direction = stream(1, "z").normal(TRIALS, LATENT), stream(2, "z").normal(TRIALS, LATENT)
    step = 1e-5
    ahead, behind = (matching(latents + sign * step * direction, rows)[0] for sign in (1, -1))
    slope = (matching(latents, rows)[1] * direction).sum(1)
    assert torch.allclose((ahead - behind) / (2 * step), slope, rtol=1e-5)


def test_the_penalty_is_zero_for_the_priors_moments_only():
    assert float(prior_divergence(torch.tensor([[1.0, -1.0]]))) == pytest.approx(0, abs=1e-7)
    assert float(prior_divergence(torch.tensor([[2.0, 0.0]]))) == pytest.approx(0.5)


@pytest.mark.parametrize("settings", [CMA, GenerativeGradientLeakage(optimizer="adam", penalty=0.0)])
def test_the_search_finds_the_planted_image(matching_of, planted, settings):
    matching, rows = matching_of(), torch.arange(TRIALS)
    starts = torch.stack([STREAMS("start", trial, 0).normal(LATENT) for trial in range(TRIALS)])
    found = search_of(matching, generations=60, settings=settings)
    assert bool((found.losses[:, 0] < 0.01 * matching.evaluate(starts, rows)[0]).all())
    before, after = (error(matching.images(z, rows), planted[2][:, 0]) for z in (starts, found.points[:, 0]))
    assert bool((after < 0.05 * before).all())


def test_squashed_latents_stay_within_one(matching_of):
    found = search_of(matching_of(), generations=5, settings=GenerativeGradientLeakage(population=16))
    assert float(found.points.abs().max()) <= 1
    assert float(search_of(matching_of(), generations=5).points.abs().max()) > 1


def test_a_trial_does_not_depend_on_its_neighbours(matching_of):
    together = search_of(matching_of(), generations=8, restarts=2)
    alone = search_of(matching_of([1]), [1], generations=8, restarts=2)
    assert torch.equal(together.points[1], alone.points[0])
    assert torch.allclose(together.losses[1], alone.losses[0], rtol=1e-10)


def test_slices_of_candidates_change_nothing(matching_of):
    matching, sliced = matching_of(), matching_of()
    sliced._together = 7
    latents, rows = stream(1, "z").normal(20, LATENT), torch.arange(20) % TRIALS
    assert torch.allclose(matching.evaluate(latents, rows)[0], sliced.evaluate(latents, rows)[0], rtol=1e-12)


def test_profiled_scale_does_not_see_a_factor_and_the_plain_distance_does(matching_of):
    plain, scaled = (search_of(matching_of(distance=profiled_scale, factor=s), generations=10) for s in (1.0, 4.0))
    assert torch.equal(plain.points, scaled.points)
    assert torch.allclose(plain.losses, scaled.losses, rtol=1e-10)
    rows = torch.arange(TRIALS)
    misled = search_of(matching_of(factor=4.0), generations=40)
    truth = search_of(matching_of(), generations=40)
    assert bool((misled.losses[:, 0] > 100 * truth.losses[:, 0])[rows].all())


def test_the_distance_of_a_transform_is_honoured(matching_of, planted):
    """A client hides all but the head; a distance that looks at the head alone still finds the image."""

    def head_only(gradients, observed):
        residuals = [g - o if index >= len(observed) - 2 else torch.zeros_like(g)
                     for index, (g, o) in enumerate(zip(gradients, observed, strict=True))]  # fmt: skip
        value = squared_norm(residuals)
        return value, residuals, torch.full_like(value, 2.0)

    rows, errors = torch.arange(TRIALS), {}
    for distance in (head_only, squared_l2):
        matching = matching_of(distance=distance)
        for value in matching.observed[:-2]:
            value.zero_()
        found = search_of(matching, generations=40, restarts=3)
        images = matching.images(found.points[rows, found.chosen()], rows)
        errors[distance] = error(images, planted[2][:, 0])
        again = matching.evaluate(found.points[:, 0], rows)[0]
        assert torch.allclose(again, found.losses[:, 0], rtol=1e-6, atol=1e-14)
    assert float(errors[head_only].max()) < 1e-3
    assert bool((errors[squared_l2] > 10 * errors[head_only]).all())


def test_a_network_with_batch_norm_goes_the_other_way_with_the_same_losses(generator, planted):
    network = SmallResNet(width=4).initialised(SHAPE, CLASSES, 0, torch.float64).eval()
    names = [name for name, _ in network.named_parameters()]
    columns = []
    for image, label in zip(planted[2], planted[1], strict=True):
        columns.append(torch.autograd.grad(F.cross_entropy(network(image), label[None]), list(network.parameters())))
    observed = [torch.stack(column) for column in zip(*columns, strict=True)]
    assert len(observed) == len(names)
    matching = LatentMatching(generator, network.requires_grad_(requires_grad=False), observed, planted[1])
    losses = matching.evaluate(planted[0], torch.arange(TRIALS))[0]
    assert float(losses.max()) < 1e-12
    assert not losses.requires_grad
    other = stream(1, "z").normal(TRIALS, LATENT)
    first, second = matching.evaluate(other, torch.arange(TRIALS))[0], matching(other, torch.arange(TRIALS))[0]
    assert torch.allclose(first, second, rtol=1e-10)


@pytest.mark.parametrize("rule", ["known", "bias", "distinct"])
def test_the_reconstruction_has_the_shapes_of_the_contract(generator, observation, knowledge, planted, rule):
    known = Knowledge("any", {**knowledge.facts, "labels": planted[1][:, None].tolist()})
    attack = replace(CMA, label_rule=rule)
    found = attack.reconstruct(Case(observation, known, Budget(30, 2), STREAMS, generator=generator))
    assert found.images.shape == (TRIALS, 1, *SHAPE)
    assert found.candidates.shape == (TRIALS, 2, 1, *SHAPE)
    assert found.candidate_losses.shape == (TRIALS, 2)
    assert torch.equal(found.labels[:, 0], planted[1])
    assert [(start.trial, start.start) for start in found.starts] == [(t, r) for t in range(TRIALS) for r in range(2)]
    losses = [start.matching_loss for start in found.starts]
    assert losses == pytest.approx(found.candidate_losses.flatten().tolist())
    best = found.candidate_losses.argmin(1)
    assert torch.equal(found.images, found.candidates[torch.arange(TRIALS), best])


def test_the_latents_are_those_of_the_images(generator, observation, knowledge, planted):
    found = CMA.reconstruct(Case(observation, knowledge, Budget(3, 2), STREAMS, generator=generator))
    again = generator.generate(found.latents[:, 0], F.one_hot(planted[1], CLASSES).double())
    assert torch.equal(again, found.images[:, 0])


def test_a_victim_that_takes_other_values_gets_the_images_on_its_scale(generator, planted, observe, knowledge):
    """Inputs within [-1, 1]: the loss at the truth is zero, and the reconstruction is on the victim's scale."""
    signed = 2 * planted[2] - 1
    observation = observe(signed, planted[1][:, None])
    given = Knowledge("any", {**knowledge.facts, "input_range": [-1.0, 1.0]})
    found = CMA.reconstruct(Case(observation, given, Budget(60, 1), STREAMS, generator=generator))
    latents = found.latents[:, 0]
    images = generator.generate(latents, F.one_hot(planted[1], CLASSES).double())
    assert torch.allclose(found.images[:, 0], 2 * images - 1)
    assert float(error(found.images, signed).max()) < 0.01


def test_what_the_client_keeps_to_itself_is_left_out(generator, planted, observe, knowledge):
    observation = observe(planted[2], planted[1][:, None])
    hidden = replace(observation, update=dict(list(observation.update.items())[:-2]))
    attack = replace(CMA, label_rule="known")
    given = Knowledge("any", {**knowledge.facts, "labels": planted[1][:, None].tolist()})
    found = attack.reconstruct(Case(hidden, given, Budget(60, 1), STREAMS, generator=generator))
    # one of the three searches ends in another valley
    assert float(error(found.images, planted[2]).median()) < 1e-6
    with pytest.raises(UserError, match="keeps its last layer to itself"):
        CMA.reconstruct(Case(hidden, knowledge, Budget(1, 1), STREAMS, generator=generator))


class TestBatches:
    """Two images per update, each sought alone in its own class."""

    LABELS = torch.tensor([[1, 4], [0, 7]])

    @pytest.fixture(scope="class")
    def batch(self, generator, observe, knowledge):
        latents = stream(3, "truth").normal(4, LATENT)
        images = generator.generate(latents, F.one_hot(self.LABELS.flatten(), CLASSES).double()).view(2, 2, *SHAPE)
        return observe(images, self.LABELS), Knowledge("any", {**knowledge.facts, "batch_size": 2})

    @staticmethod
    def run(generator, batch, rows=(0, 1), restarts=1):
        attack = replace(CMA, label_rule="distinct")
        return attack.reconstruct(
            Case(batch[0].select(rows), batch[1], Budget(5, restarts), STREAMS, generator=generator)
        )

    def test_labels_and_shapes(self, generator, batch):
        found = self.run(generator, batch, restarts=3)
        assert torch.equal(found.labels, self.LABELS)
        assert found.images.shape == (2, 2, *SHAPE)
        assert found.candidates.shape == (2, 3, 2, *SHAPE)
        assert found.latents.shape == (2, 2, LATENT)
        again = generator.generate(found.latents.flatten(0, 1), F.one_hot(self.LABELS.flatten(), CLASSES).double())
        assert torch.equal(again.view_as(found.images), found.images)
        assert len(found.starts) == 2 * 3
        assert found.evaluations() == 4 * 3 * 5 * CMA.population

    def test_each_image_is_the_search_of_its_class_alone(self, generator, batch, network_of):
        """The slow way: one search per image against the update of its batch."""
        network = network_of().requires_grad_(requires_grad=False)
        found = self.run(generator, batch)
        for trial, place in ((0, 1), (1, 0)):
            observed = [value[[trial]] for value in batch[0].update.values()]
            matching = LatentMatching(generator, network, observed, self.LABELS[trial, [place]])
            alone = ggl_search(matching, (2 * trial + place,), Budget(5, 1), STREAMS, CMA)
            assert torch.allclose(alone.points[0, 0], found.latents[trial, place], rtol=1e-9, atol=1e-12)

    def test_a_trial_does_not_depend_on_its_neighbours(self, generator, batch):
        together, alone = self.run(generator, batch), self.run(generator, batch, rows=[1])
        assert torch.allclose(together.latents[1], alone.latents[0], rtol=1e-9, atol=1e-12)
        assert alone.starts[0].trial == 1

    def test_every_image_takes_the_best_of_its_own_starts(self, generator, batch, network_of):
        """The slow way: the loss at the end of each start of an image's own search, evaluated anew."""
        network = network_of().requires_grad_(requires_grad=False)
        found, best = self.run(generator, batch, restarts=3), []
        for trial, place in ((0, 0), (0, 1), (1, 0), (1, 1)):
            observed = [value[[trial]] for value in batch[0].update.values()]
            matching = LatentMatching(generator, network, observed, self.LABELS[trial, [place]])
            ends = ggl_search(matching, (2 * trial + place,), Budget(5, 3), STREAMS, CMA).points[0]
            losses = matching.evaluate(ends, torch.zeros(3, dtype=torch.int64))[0]
            best.append(int(losses.argmin()))
            assert torch.allclose(found.latents[trial, place], ends[best[-1]], rtol=1e-9, atol=1e-12)
        assert len(set(best)) > 1


class TestJoint:
    """All latents of an update together, against the mean gradient that they made."""

    LABELS = torch.tensor([[1, 1], [0, 7]])
    JOINT = GenerativeGradientLeakage(joint=True, optimizer="adam", penalty=0.0, label_rule="known")

    @pytest.fixture(scope="class")
    def latents(self):
        return stream(5, "truth").normal(2, 2 * LATENT)

    @pytest.fixture(scope="class")
    def batch(self, generator, observe, knowledge, latents):
        classes = F.one_hot(self.LABELS.flatten(), CLASSES).double()
        images = generator.generate(latents.view(-1, LATENT), classes).view(2, 2, *SHAPE)
        facts = {**knowledge.facts, "batch_size": 2, "labels": self.LABELS.tolist()}
        return observe(images, self.LABELS), Knowledge("any", facts)

    def matching(self, generator, batch, penalty=0.0, **settings):
        attack = replace(self.JOINT, penalty=penalty, **settings)
        return attack.matching(Case(*batch, Budget(1, 1), STREAMS, generator=generator))[0]

    def test_the_planted_latents_have_loss_zero_and_a_zero_derivative(self, generator, batch, latents):
        matching = self.matching(generator, batch)
        for losses in (matching.evaluate(latents, torch.arange(2))[0], matching(latents, torch.arange(2))[0]):
            assert float(losses.abs().max()) < 1e-12
        assert float(matching(latents, torch.arange(2))[1].abs().max()) < 1e-5
        alone = self.matching(generator, batch, joint=False)
        assert float(alone.evaluate(latents.view(4, LATENT), torch.arange(4))[0].min()) > 1e-5

    def test_a_search_that_starts_there_stays_there(self, generator, batch, latents):
        matching = self.matching(generator, batch)
        found = adam_search(matching, lambda row, start: latents[row], 2, AdamSettings(5))
        assert torch.allclose(found.points[:, 0], latents, atol=1e-6)

    def test_the_derivative_is_that_of_the_loss_with_its_penalty(self, generator, batch):
        matching, rows = self.matching(generator, batch, penalty=0.3), torch.arange(2)
        points, direction = (stream(number, "z").normal(2, 2 * LATENT) for number in (1, 2))
        step = 1e-5
        ahead, behind = (matching(points + sign * step * direction, rows)[0] for sign in (1, -1))
        slope = (matching(points, rows)[1] * direction).sum(1)
        assert torch.allclose((ahead - behind) / (2 * step), slope, rtol=1e-5)

    def test_one_image_is_the_search_of_one_image(self, generator, observation, knowledge, planted):
        given = Knowledge("any", {**knowledge.facts, "labels": planted[1][:, None].tolist()})
        joint, alone = (
            replace(self.JOINT, joint=joint).reconstruct(
                Case(observation, given, Budget(5, 2), STREAMS, generator=generator)
            )
            for joint in (True, False)
        )
        assert torch.equal(joint.images, alone.images)
        assert joint.starts == alone.starts

    @pytest.mark.parametrize("optimizer", ["adam", "cma"])
    def test_shapes_and_records(self, generator, batch, optimizer):
        attack = replace(self.JOINT, optimizer=optimizer, population=8)
        found = attack.reconstruct(Case(*batch, Budget(3, 2), STREAMS, generator=generator))
        assert found.images.shape == (2, 2, *SHAPE)
        assert found.candidates.shape == (2, 2, 2, *SHAPE)
        assert found.latents.shape == (2, 2, LATENT)
        assert [(start.trial, start.start) for start in found.starts] == [(t, r) for t in range(2) for r in range(2)]
        losses = [start.matching_loss for start in found.starts]
        assert losses == pytest.approx(found.candidate_losses.flatten().tolist())
        again = generator.generate(found.latents.flatten(0, 1), F.one_hot(self.LABELS.flatten(), CLASSES).double())
        assert torch.allclose(again.view_as(found.images), found.images)

    @pytest.mark.parametrize("rule", ["counts", "unmixed"])
    def test_labels_are_counted(self, generator, batch, rule):
        distance = squared_l2 if rule == "counts" else profiled_scale
        observation = batch[0].scaled(1.0 if rule == "counts" else 0.3)
        for joint in (False, True):
            attack = replace(self.JOINT, joint=joint, label_rule=rule)
            found = attack.reconstruct(Case(observation, batch[1], Budget(1, 1), STREAMS, distance, generator))
            assert torch.equal(found.labels, self.LABELS)

    def test_a_float32_update_can_be_searched_in_float64(self, generator, batch):
        rough = batch[0].in_dtype(torch.float32), batch[1]
        attack = replace(self.JOINT, dtype="float64")
        assert (
            attack.reconstruct(Case(*rough, Budget(1, 1), STREAMS, generator=generator)).images.dtype == torch.float64
        )


def test_two_digits_are_found_better_together_than_one_at_a_time(digits, observe, knowledge):
    """Images that the project's small conditional GAN can make, two of an update."""
    images, labels = digits[0][:1000].float(), digits[1][:1000]
    gan, settings = ConditionalGan(8, 4, 8), GanTraining(steps=300)
    generator = train_generator(images, labels, CLASSES, gan, settings, partial(stream, 0, "generator")).frozen()
    generator = generator.double()
    classes = torch.tensor([[2, 6], [0, 8]])
    latents = stream(0, "private").normal(4, 8)
    truth = generator.generate(latents, F.one_hot(classes.flatten(), CLASSES).double()).view(2, 2, *SHAPE)
    given = Knowledge("any", {**knowledge.facts, "batch_size": 2})
    observation, errors = observe(truth, classes), {}
    for joint in (False, True):
        attack = GenerativeGradientLeakage(joint=joint, label_rule="counts", optimizer="adam", penalty=0.0)
        found = attack.reconstruct(Case(observation, given, Budget(150, 1), STREAMS, generator=generator))
        assert torch.equal(found.labels, classes)
        costs = ((found.images[:, :, None] - truth[:, None]) ** 2).flatten(3).mean(3)
        errors[joint] = torch.minimum(costs[:, 0, 0] + costs[:, 1, 1], costs[:, 0, 1] + costs[:, 1, 0]) / 2
    assert bool((errors[True] < 0.05 * errors[False]).all())


def test_what_cannot_be_attacked_is_refused(generator, observation, knowledge, observe, planted, waves):
    def run(generator=generator, observation=observation, rule="bias", iterations=1, **facts):
        given = Knowledge("any", {**knowledge.facts, **facts})
        attack = replace(CMA, label_rule=rule)
        return attack.reconstruct(Case(observation, given, Budget(iterations, 1), STREAMS, generator=generator))

    with pytest.raises(UserError, match="matches gradients"):
        run(observation=observe(planted[2], planted[1][:, None], kind="delta"))
    with pytest.raises(UserError, match="use label_rule: unmixed, distinct or known"):
        run(batch_size=4)
    with pytest.raises(UserError, match="the generator makes 3x8x8 images"):
        run(ConditionalGan(4, 2, 2).generator((3, 8, 8), CLASSES).frozen())
    with pytest.raises(UserError, match="images of 7 classes, the victim takes 1x8x8 images of 10"):
        run(waves(classes=7))
    with pytest.raises(UserError, match="training state"):
        run(waves().train())
    with pytest.raises(UserError, match=r"knows classes 0\.\.9 only"):
        run(rule="known", labels=[[10], [0], [0]])
    with pytest.raises(UserError, match="not finite"):
        run(rule="known", observation=observation.scaled(torch.nan), labels=[[0], [0], [0]])
    with pytest.raises(UserError, match="at least one iteration"):
        run(iterations=0)


def test_unknown_settings_are_refused():
    with pytest.raises(UserError, match="choose from cma, adam"):
        GenerativeGradientLeakage(optimizer="bayes")
    with pytest.raises(UserError, match="must not be negative"):
        GenerativeGradientLeakage(penalty=-1.0)
