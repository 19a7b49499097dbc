"""Pool peel: identities of a network taken apart, closing and its certificate, and what is read of small digits."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.pool_peel import PoolPeel, PoolPeelSmooth
from leaklab.attacks.pooling.closing import CLOSED, choices_of, closed, fitted, judged
from leaklab.attacks.pooling.picture import FirstStage, GaussianPrior, Mixture, first_output
from leaklab.attacks.pooling.stages import stages_of, taken_apart
from leaklab.metrics.pixel import EXACT_DB
from leaklab.models.cnns import MnistCNN, SmallCNN
from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SIDE, CLASSES, PUBLIC = 20, 10, 1000
WIDE, DROPPING = ({"name": name, "settings": {}} for name in ("cnn-mnist", "cnn-small"))


def enlarged(images):
    return F.interpolate(images, (SIDE, SIDE), mode="bilinear").clamp(0, 1)


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian().fitted(enlarged(digits[0][:PUBLIC]), digits[1][:PUBLIC], CLASSES)


@pytest.fixture(scope="module")
def private(digits):
    return enlarged(digits[0][PUBLIC : PUBLIC + 3])[:, None], digits[1][PUBLIC : PUBLIC + 3, None]


@pytest.fixture(scope="module")
def granted(knowledge):
    facts = {"architecture": WIDE, "input_shape": [1, SIDE, SIDE]}
    return Knowledge("any", {**knowledge.facts, **facts})


@pytest.fixture(scope="module")
def seen(observe, private):
    """Three gradients of one network, in evaluation state."""
    return replace(observe(*private, network=network()), model=WIDE)


def network(architecture=MnistCNN):
    return architecture().initialised((1, SIDE, SIDE), CLASSES, 3, torch.float64).eval()


@pytest.fixture(scope="module")
def taken(seen):
    return taken_apart(seen, network().requires_grad_(requires_grad=False), (1, SIDE, SIDE), "the test")


def truth_of(taken, image):
    """Return the second stage's true input and winners."""
    inputs = first_output(taken, image.flatten())
    return inputs, choices_of(taken.stages[1], inputs).argmax(-1)


def run(observation, knowledge, generator=None, attack=None, restarts=2):
    case = Case(observation, knowledge, Budget(40, restarts), partial(stream, 0, "attack"), generator=generator)
    return (attack or PoolPeel()).reconstruct(case)


def decibels(found, private):
    error = ((found.images.clamp(0, 1) - private[0]) ** 2).flatten(1).mean(1)
    return -10 * error.log10()


def test_the_head_gives_the_output_and_its_error_away(taken, private):
    for one, image in zip(taken, private[0], strict=True):
        inputs, _ = truth_of(one, image)
        values = choices_of(one.stages[1], inputs).amax(-1).clamp(min=0)
        assert (one.values - values).abs().max() < 1e-9
        assert (one.errors.sum(1) - one.gradients[1].bias).abs().max() < 1e-12
        assert bool((one.errors[one.values == 0] == 0).all())
        assert int((one.errors != 0).sum()) > 20


FORMS = {
    "house": (1, lambda: (nn.Conv2d(1, 6, 5), nn.MaxPool2d(2), nn.Conv2d(6, 8, 5), nn.MaxPool2d(2))),
    "padded": (
        3,
        lambda: (nn.Conv2d(3, 6, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.MaxPool2d(2)),
    ),
    "strided": (3, lambda: (nn.Conv2d(3, 6, 3, 2, 1), nn.MaxPool2d(2), nn.Conv2d(6, 8, 2), nn.MaxPool2d(2))),
    "overlapping": (
        1,
        lambda: (nn.Conv2d(1, 6, 3), nn.MaxPool2d(3, 2), nn.Conv2d(6, 8, 3, bias=False), nn.MaxPool2d(3, 2)),
    ),
    "oblong": (1, lambda: (nn.Conv2d(1, 6, (3, 5)), nn.MaxPool2d((2, 3)), nn.Conv2d(6, 8, (3, 2)), nn.MaxPool2d(2))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relu_first", [False, True])
@pytest.mark.parametrize("hidden", [(), (30,)])
def test_the_equations_hold_at_the_truth(observe, form, relu_first, hidden):
    """Both kernels' gradients are the product of errors at the winners and patches, whatever geometry and head."""
    channels, parts = FORMS[form]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first, pool, second, other = parts()
        pairs = [(pool, nn.ReLU()), (other, nn.ReLU())]
        near, far = (pair[::-1] if relu_first else pair for pair in pairs)
        features = nn.Sequential(first, *near, second, *far, nn.Flatten())
        width = features(torch.zeros(1, channels, SIDE, SIDE)).shape[1]
        head = [nn.Linear(width, 30), nn.ReLU(), nn.Linear(30, 4)] if hidden else [nn.Linear(width, 4)]
    victim = nn.Sequential(*features, *head).double()
    image = stream(0, form).uniform(1, 1, channels, SIDE, SIDE).double()
    observation = observe(image, torch.tensor([[1]]), [0.37], network=victim)
    victim.requires_grad_(requires_grad=False)
    (one,) = taken_apart(observation, victim, (channels, SIDE, SIDE), "the test")
    inputs, winners = truth_of(one, image)
    stage, target = one.stages[1], one.stages[1].by_channel(one.gradients[1].weight)
    at = stage.of_winners(winners, one.errors)
    assert (at @ stage.patches(inputs[None])[0].T - one.gradients[1].weight).norm() < 1e-9 * target.norm()
    assert (stage.gradient_rows(at) @ inputs.flatten(1).T - target).norm() < 1e-9 * target.norm()
    outputs = inputs.flatten(1)
    errors = stage.overlaid((stage.weight.T @ at)[None])[0].flatten(1) * (outputs > 0)
    behind = FirstStage(one.stages[0], one.gradients[0].weight, outputs, errors, torch.ones_like(outputs).bool())
    assert behind.misfit(image.flatten()) < 1e-9
    assert behind.gradient_misfit(image.flatten()) < 1e-9


def test_the_true_winners_give_the_input_and_a_proof(taken, private):
    for one, image in zip(taken, private[0], strict=True):
        inputs, winners = truth_of(one, image)
        found = fitted(one, winners, torch.ones(len(winners)).double())
        proof = judged(one, found, winners, 1)
        assert proof.proven
        assert ((found - inputs) * proof.known).abs().max() < 1e-9
        assert proof.known.double().mean() > 0.8


def test_one_wrong_winner_is_not_certified(taken, private):
    one = taken[0]
    _, winners = truth_of(one, private[0][0])
    for number, (channel, cell) in enumerate((one.errors != 0).nonzero().tolist()):
        if number % 20 == 0:
            wrong = winners.clone()
            wrong[channel, cell] = (wrong[channel, cell] + 1 + number % 3) % 4
            found = judged(one, fitted(one, wrong, torch.ones(len(wrong)).double()), wrong, 1)
            assert not found.proven
            assert found.residual > 10 * CLOSED


def test_closing_finds_all_winners_from_a_rough_input(taken, private):
    for one, image in zip(taken, private[0], strict=True):
        inputs, winners = truth_of(one, image)
        rough = first_output(one, (image + 0.1 * stream(0, "rough").normal(*image.shape)).flatten())
        wrong = (choices_of(one.stages[1], rough).argmax(-1) != winners) & (one.errors != 0)
        assert int(wrong.sum()) > 5
        found = closed(one, rough, stream(0, "closing"))
        assert found.proven
        assert bool((found.winners == winners)[one.errors != 0].all())
        assert ((found.inputs - inputs) * found.known).abs().max() < 1e-9


def test_another_gradient_never_closes(taken):
    one = taken[0]
    own = one.gradients[1]
    swapped = replace(own, weight=own.weight.roll(1, 0))
    for number in range(5):
        start = stream(number, "start").uniform(*one.stages[1].shape).double()
        found = closed(replace(one, gradients=(one.gradients[0], swapped)), start, stream(number, "closing"))
        assert not found.proven


def test_fewer_equations_than_unknowns_prove_nothing(taken, private):
    """Of one filter any input that fits closes: there is nothing left to speak against it."""
    one = taken[0]
    inputs, winners = truth_of(one, private[0][0])
    only = one.errors.clone()
    only[1:] = 0
    gradient = one.gradients[1].weight.clone()
    gradient[1:] = 0
    alone = replace(one, errors=only, gradients=(one.gradients[0], replace(one.gradients[1], weight=gradient)))
    found = judged(alone, inputs, winners, 1)
    assert found.residual < CLOSED
    assert not found.proven


def test_the_truth_is_a_fixed_point_of_the_mixture(taken, private, generator):
    """Where the prior's pull is below the equations' width, turns leave the truth where it is."""
    one, image = taken[0], private[0][0].flatten()
    inputs, winners = truth_of(one, image.view(1, SIDE, SIDE))
    mean, factor = (value[int(private[1][0])].detach().double() for value in (generator.mean, generator.factor))
    prior = GaussianPrior(mean, factor, torch.zeros_like(mean), torch.ones_like(mean))
    mixture = Mixture(FirstStage.behind(one, judged(one, inputs, winners, 1), 1e-6), prior)
    found, misfit = mixture.passed(image, (1e-4, 1e-5), 3, None)
    assert misfit < 1e-5
    assert (found - image).abs().max() < 1e-2


@pytest.fixture(scope="module")
def read(seen, granted, generator):
    return run(seen, granted, generator)


def test_digits_are_read_far_above_what_the_class_mean_gives(read, private, generator):
    found = decibels(read, private)
    means = generator.mean[private[1][:, 0]].detach().view_as(private[0])
    assert sorted(found.tolist())[1] > 60
    assert bool((found > decibels(replace(read, images=means), private) + 8).all())
    assert read.labels.tolist() == private[1].tolist()


def test_what_is_certified_is_exact(read, private):
    assert bool((decibels(read, private)[read.certified] > EXACT_DB).all())
    assert bool(read.certified.any())


def test_a_hidden_factor_changes_nothing(seen, granted, generator, read):
    hidden = run(seen.scaled(0.37), granted, generator)
    sure = read.certified & hidden.certified
    assert bool(sure.any())
    assert (hidden.images - read.images)[sure].abs().max() < 1e-3
    delta = run(replace(seen.scaled(-0.01), kind="delta").select([0]), granted, generator, restarts=1)
    assert delta.candidate_losses[0, 0] < 1


def test_dropout_behind_the_first_affine_layer_changes_nothing(private, granted, generator):
    victim = network(SmallCNN)
    victim.dropout1 = FixedMask()
    gradients = torch.autograd.grad(F.cross_entropy(victim(private[0][0]), private[1][0]), list(victim.parameters()))
    names = [name for name, _ in victim.named_parameters()]
    weights = {name: value.detach() for name, value in victim.named_parameters()}
    update = {name: value[None] for name, value in zip(names, gradients, strict=True)}
    observation = seen_of(weights, update, "train")
    assert decibels(run(observation, granted, generator), (private[0][:1],))[0] > 30


class Waves(Generator):
    """A generator that is no Gaussian."""

    def __init__(self):
        super().__init__(4, CLASSES, (1, SIDE, SIDE))

    def forward(self, latents, classes):
        return torch.sin(latents.sum(1) + classes.sum(1))[:, None, None, None].expand(-1, *self.image_shape)


class FixedMask(nn.Module):
    """Drops every other unit and doubles the rest."""

    def forward(self, values):
        mask = torch.arange(values.shape[1]) % 2
        return values * 2 * mask


def seen_of(weights, update, mode):
    return Observation(weights, update, "gradient", mode, DROPPING, (0,))


def test_without_public_images_the_stage_closes_too(seen, granted, private):
    found = run(seen, granted, attack=PoolPeelSmooth())
    assert int((found.candidate_losses.amin(1) < 1).sum()) >= 2
    assert bool((decibels(found, private)[found.certified] > EXACT_DB).all())


def test_what_does_not_fit_is_refused(seen, granted, generator, observe, private):
    small = Knowledge("any", {**granted.facts, "input_shape": [1, 8, 8]})
    with pytest.raises(UserError, match="needs two convolutions, each with ReLU and max pooling"):
        run(observe(private[0][:1, :, :, :8, :8], private[1][:1]), small, generator)
    with pytest.raises(UserError, match="works for batch_size <= 1, not 2"):
        run(seen, Knowledge("any", {**granted.facts, "batch_size": 2}), generator)
    kept = {name: value for name, value in seen.update.items() if not name.startswith("conv2")}
    with pytest.raises(UserError, match=r"the client keeps 'conv2.weight' to itself"):
        run(replace(seen, update=kept), granted, generator)
    other = Waves().frozen()
    with pytest.raises(UserError, match="choose the generator class-gaussian"):
        run(seen, granted, other)


@pytest.mark.parametrize("changed", ["fc1.weight", "fc1.bias", "conv2.bias"])
def test_a_gradient_of_no_such_network_is_refused_in_one_line(seen, granted, generator, changed):
    noise = 0.01 * seen.update[changed].std() * stream(0, "noise").normal(*seen.update[changed].shape)
    with pytest.raises(UserError, match="not that of one sample without noise") as refusal:
        run(replace(seen, update={**seen.update, changed: seen.update[changed] + noise}), granted, generator)
    assert "\n" not in str(refusal.value)
    assert "choose annealed-map" in str(refusal.value)


@pytest.mark.parametrize(
    "layer", [nn.Conv2d(2, 2, 3, groups=2), nn.Conv2d(2, 2, 3, padding="same"), nn.Conv2d(2, 2, 3)], ids=str
)
def test_geometry_that_cannot_be_read_is_refused(layer):
    pool = nn.MaxPool2d(2, ceil_mode=not isinstance(layer.padding, str) and layer.groups == 1)
    victim = nn.Sequential(layer, nn.ReLU(), pool, nn.Conv2d(2, 2, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(2, 2))
    with pytest.raises(UserError, match="groups, another padding than so many zeros, or a pool that pads"):
        stages_of(victim, (2, SIDE, SIDE), "the test")
