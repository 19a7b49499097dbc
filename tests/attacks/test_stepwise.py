"""Steps told apart: the gradient of each, what is read of two of them under each defense, and what is refused."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.annealed import AnnealedLikelihood
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.matching.distances import OfTheMean, squared_l2
from leaklab.attacks.matching.steps import LocalSteps, gradients_at, mean_gradient, simulated_delta
from leaklab.attacks.stepwise import PrescribedRound, stepwise_posteriors
from leaklab.defenses.base import ClientContext
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.federated.optimizers import Sgd
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, RATE, CLASSES, PUBLIC = 2, 0.01, 10, 1000
MODEL = {"name": "dlg-lenet", "settings": {"initialisation": "wide"}}
STREAMS = partial(stream, 0, "attack")


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], CLASSES)


def network_of():
    architecture = plugins.load("models", MODEL["name"], MODEL["settings"])
    return architecture.initialised((1, 8, 8), CLASSES, 1, torch.float64).requires_grad_(requires_grad=False).eval()


@pytest.fixture(scope="module")
def sent(digits):
    """What clients send after steps by the code that trains: observation, knowledge, images and labels [T, n]."""

    def make(name="none", order=((0,), (1,)), momentum=0.0, rounds=1, **settings):
        network = network_of()
        form = trainable(network, (1, 8, 8))
        state = {name: value.clone() for name, value in network.named_parameters()}
        held = max(max(row) for row in order) + 1
        images = digits[0][PUBLIC : PUBLIC + held * TRIALS].view(TRIALS, held, 1, 8, 8).double()
        labels = digits[1][PUBLIC : PUBLIC + held * TRIALS].view(TRIALS, held)
        batches = [Batch(images[:, row], labels[:, row], {}) for row in map(list, order)]
        stacked = {name: value.expand(TRIALS, *value.shape).clone() for name, value in state.items()}
        contexts = [ClientContext(scaled_rate=RATE, seed=0, client=trial) for trial in range(TRIALS)]
        left = local_training(
            form, stacked, batches, contexts, plugins.load("defenses", name, settings), optimizer=Sgd(momentum),
            build=partial(plugins.load("models", MODEL["name"]).build, (1, 8, 8), CLASSES),
        )  # fmt: skip
        update = {name: left.weights[name] - state[name] for name in state}
        facts = {
            "architecture": MODEL, "weights": True, "nominal_rate": RATE, "local_steps": len(order), "rounds": rounds,
            "batch_size": len(order[0]), "num_classes": CLASSES, "input_shape": [1, 8, 8], "input_range": [0.0, 1.0],
            "labels": labels.tolist(), "defense": {"name": name, "settings": settings},
            "optimizer": {"name": "sgd", "settings": {"momentum": momentum}}, "weight_decay": 0.0,
        }  # fmt: skip
        observation = Observation(state, update, "delta", "eval", MODEL, tuple(range(TRIALS)))
        return observation, Knowledge("honest-but-curious-with-labels", facts), images, labels

    return make


def run(generator, seen, transform, iterations=15, restarts=1, **settings):
    observation, knowledge, _, labels = seen
    samples = 0 if labels.shape[1] == knowledge.require("batch_size") else labels.shape[1]
    loaded = plugins.load("attacks/adaptive", transform).informed(knowledge)
    prepared, _ = loaded.prepare(observation, knowledge)
    attack = AnnealedLikelihood(**{"label_rule": "known", "samples": samples, "stages": 3, "finest": 0.01, **settings})
    return attack.reconstruct(
        Case(prepared, knowledge, Budget(iterations, restarts), STREAMS, loaded.distance, generator=generator)
    )


def errors(found, seen, generator):
    """Return the mean squared error, and that of the mean image of the right class."""
    images, labels = seen[2], seen[3]
    means = generator.mean.double()[labels].view_as(images)
    return [float(((one.clamp(0, 1) - images) ** 2).mean()) for one in (found.images, means)]


class TestRound:
    def test_each_step_has_the_gradient_where_the_client_stood(self, digits):
        network, steps = network_of(), LocalSteps(0.5, 0.1, torch.tensor([[0], [1], [0]]))
        images, targets = digits[0][:4].view(2, 2, 1, 8, 8).double(), F.one_hot(digits[1][:4], CLASSES).view(2, 2, -1)
        rates, targets = torch.tensor([0.1, 0.05, 0.1]).double(), targets.double()
        found = PrescribedRound(rates, steps, dict).gradients(network, images, targets)
        before = dict(network.named_parameters())
        short = simulated_delta(
            network, images, targets, rates[:2].expand(2, -1), replace(steps, order=steps.order[:2])
        )
        there = {name: before[name] + moved for name, moved in short.items()}
        for own, wanted in zip(
            found, gradients_at(network, there, images[:, :1], targets[:, :1]).values(), strict=True
        ):
            assert torch.allclose(own[:, 2], wanted, atol=1e-12)

    def test_a_step_goes_where_the_law_says(self, digits):
        """With nothing left of the first step's gradient the second one is taken at the weights that were sent."""
        network, images = network_of(), digits[0][:2].view(1, 2, 1, 8, 8).double()
        targets, steps = (
            F.one_hot(digits[1][:2], CLASSES).view(1, 2, -1).double(),
            LocalSteps(order=torch.tensor([[0], [1]])),
        )
        still = PrescribedRound(torch.tensor([0.1, 0.1]).double(), steps, lambda g: {n: 0 * v for n, v in g.items()})
        sent = {name: value[None] for name, value in network.named_parameters()}
        found = still.gradients(network, images, targets)
        for own, wanted in zip(found, gradients_at(network, sent, images[:, 1:], targets[:, 1:]).values(), strict=True):
            assert torch.allclose(own[:, 1], wanted, atol=1e-12)


@pytest.mark.parametrize(("order", "momentum"), [(((0,), (1,)), 0.0), (((0,), (0,), (0,)), 0.9), (((0, 1),) * 2, 0.9)],
    ids=["own batches", "one image, momentum", "a batch of two, momentum"])  # fmt: skip
def test_without_a_defense_the_truth_is_the_optimum_of_the_law(sent, generator, order, momentum):
    """Its loss is that of exact entries, to rounding, and every other guess is worse."""
    observation, knowledge, images, labels = sent("none", order, momentum)
    law = plugins.load("attacks/adaptive", "ranked-mixture").informed(knowledge).distance
    mean = mean_gradient(observation, knowledge, "the test")
    scene = scene_of("the test", generator, mean, knowledge, law)
    (posterior,) = stepwise_posteriors(scene, law, [1e-4], labels, 0.0)
    points, rows = images.flatten(1), torch.arange(TRIALS)
    best, slope = posterior.inversion(points, rows)
    assert bool((posterior.inversion.loss_of_nothing() - best > 1e3).all())
    for size in (1e-5, 1e-2):
        other = points + size * stream(1, "way").normal(*points.shape)
        value, steep = posterior.inversion(other, rows)
        assert bool((value > best).all())
        assert float(slope.abs().max()) < 1e-3 * float(steep.abs().max())


@pytest.mark.parametrize(("name", "settings", "transform", "share"), [
    ("none", {}, "ranked-mixture", 30), ("gradient-compression", {"dropped": 0.8}, "ranked-mixture", 30),
    ("outpost", {}, "ranked-mixture", 8), ("outpost", {"decay": 1e5}, "ranked-mixture", 8),
    ("laplace-noise", {"variance": 1e-4}, "matched-laplace", 2), ("grad-defense", {}, "sliced-mixture", 3),
    ("additive-noise", {"sigma": 0.01}, "matched-noise", 2),
], ids=["none", "compression", "outpost", "outpost, one step of two", "laplace", "slices", "noise"])  # fmt: skip
def test_two_steps_on_an_image_each_are_read(sent, generator, name, settings, transform, share):
    seen = sent(name, **settings)
    ours, mean = errors(run(generator, seen, transform, place="steps"), seen, generator)
    assert ours < mean / share


def test_the_law_of_one_gradient_reads_less_of_two(sent, generator):
    seen = sent("gradient-compression", dropped=0.8)
    by_steps, by_mean = (
        errors(run(generator, seen, "ranked-mixture", place=place), seen, generator)[0] for place in ("steps", "sent")
    )
    assert by_steps < by_mean / 2


def test_steps_on_one_image_are_read_and_so_is_their_label(sent, generator):
    seen = sent("outpost", ((0,), (0,)))
    found = run(generator, seen, "ranked-mixture", place="steps", label_rule="likelihood")
    ours, mean = errors(found, seen, generator)
    assert torch.equal(found.labels, seen[3])
    assert ours < mean / 8


def test_trials_do_not_touch_each_other_and_starts_are_kept_apart(sent, generator):
    seen = sent("outpost")
    together = run(generator, seen, "ranked-mixture", 8, 2, place="steps")
    labels = {**seen[1].facts, "labels": seen[3].tolist()}
    alone = run(generator, (seen[0].select([1]), replace(seen[1], facts=labels), *seen[2:]), "ranked-mixture", 8, 2,
                place="steps")  # fmt: skip
    assert together.candidates.shape[:2] == (2, 2)
    assert torch.allclose(together.images[1], alone.images[0], atol=1e-8)


def test_a_distance_of_the_mean_has_the_slopes_of_its_steps():
    gradients, observed = [stream(0, "g").normal(3, 2, 4, 5)], [stream(0, "o").normal(3, 4, 5)]
    shares = (0.3, 0.7)
    value, (slope,), factor = OfTheMean(squared_l2, shares)(gradients, observed)
    leaf = gradients[0].clone().requires_grad_()
    expected = ((0.3 * leaf[:, 0] + 0.7 * leaf[:, 1] - observed[0]) ** 2).flatten(1).sum(1)
    assert torch.allclose(value, expected)
    assert torch.allclose(torch.autograd.grad(expected.sum(), leaf)[0], slope * factor.view(-1, 1, 1, 1))


class TestRefusals:
    def test_a_law_that_does_not_tell_steps_apart(self, sent, generator):
        seen = sent("none")
        attack = AnnealedLikelihood(label_rule="known", samples=2, place="steps")
        with pytest.raises(UserError, match="does not tell steps apart: set place: sent"):
            attack.reconstruct(
                Case(seen[0].as_gradient(seen[1]), seen[1], Budget(1, 1), STREAMS, squared_l2, generator=generator)
            )
        with pytest.raises(UserError, match="needs a transform with a likelihood"):
            attack.reconstruct(
                Case(seen[0].as_gradient(seen[1]), seen[1], Budget(1, 1), STREAMS, None, generator=generator)
            )

    def test_the_mean_of_several_rounds(self, sent, generator):
        with pytest.raises(UserError, match="of one round, and the observation is the mean of 3: set place: sent"):
            run(generator, sent("outpost", rounds=3), "ranked-mixture", 1, place="steps")

    def test_clipped_gradients_of_several_steps_and_steps_at_several_rates(self, sent, generator):
        with pytest.raises(UserError, match="at one rate and without a clip: set place: sent"):
            run(generator, sent("clipping-noise", bound=1.0, sigma=0.1), "matched-noise", 1, place="steps")
        for name, transform in (("laplace-noise", "matched-laplace"), ("additive-noise", "matched-noise")):
            with pytest.raises(UserError, match="at one rate"):
                run(generator, sent(name, momentum=0.9), transform, 1, place="steps")
