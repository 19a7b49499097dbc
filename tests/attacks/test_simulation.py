"""F2: the simulated update is the client's update, and its derivative is right."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.matching.steps import LocalSteps, simulated_delta
from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.federated.optimizers import Sgd
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

CLASSES, TRIALS = 10, 3
MODELS = {
    "dlg-lenet": ({}, (1, 8, 8)),
    "logistic-regression": ({}, (1, 8, 8)),
    "mlp": ({"dropout": 0.0}, (1, 8, 8)),
    "cnn-small": ({"dropout": 0.0}, (1, 16, 16)),
    "cnn-mnist": ({}, (1, 28, 28)),
}


def network_of(name, settings, shape):
    network = plugins.load("models", name, settings).initialised(shape, CLASSES, 1, torch.float64)
    return network.eval().requires_grad_(requires_grad=False)


@pytest.fixture
def lenet():
    return network_of("dlg-lenet", *MODELS["dlg-lenet"])


def samples(count, shape=(1, 8, 8)):
    draws = stream(0, "samples", count)
    return draws.uniform(TRIALS, count, *shape), draws.integers(0, CLASSES, TRIALS, count)


def one_hot(labels):
    return F.one_hot(labels, CLASSES).double()


def client(name, batches, rate, steps=LocalSteps(), defense=NoDefense()):  # noqa: B008
    """The deltas and rates of the code that trains."""
    settings, shape = MODELS[name]
    network = network_of(name, settings, shape)
    weights = {n: p.expand(TRIALS, *p.shape) for n, p in network.named_parameters()}
    contexts = [ClientContext(scaled_rate=rate, seed=0, client=trial) for trial in range(TRIALS)]
    optimizer, decay = Sgd(steps.momentum), steps.weight_decay
    form = trainable(network, shape)
    sent = local_training(form, weights, batches, contexts, defense, optimizer=optimizer, weight_decay=decay)
    return {n: sent.weights[n] - weights[n] for n in weights}, sent.rates


def assert_same(ours, theirs, tolerance=1e-8):
    assert list(ours) == list(theirs)
    for name, delta in theirs.items():
        assert delta.abs().max() > 100 * tolerance
        assert torch.allclose(ours[name], delta, rtol=0, atol=tolerance), name


@pytest.mark.parametrize("weight_decay", [0.0, 1e-4])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("count", [1, 4])
def test_f2_the_simulated_delta_is_the_clients(lenet, count, batch, momentum, weight_decay):
    (images, labels), steps = samples(batch), LocalSteps(momentum, weight_decay)
    for rate in (1e-2, 0.5):
        theirs, rates = client("dlg-lenet", [Batch(images, labels, {})] * count, rate, steps)
        assert_same(simulated_delta(lenet, images, one_hot(labels), rates, steps), theirs)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "dlg-lenet"])
def test_f2_holds_for_the_other_networks_and_perturbed_rates(name):
    settings, shape = MODELS[name]
    images, labels = samples(2, shape)
    batches = [Batch(images, labels, {})] * 3
    theirs, rates = client(name, batches, 0.05, defense=LearningRatePerturbation())
    assert len(set(rates.flatten().tolist())) == rates.numel()
    assert_same(simulated_delta(network_of(name, settings, shape), images, one_hot(labels), rates), theirs)


def test_f2_holds_for_a_declared_batch_order(lenet):
    images, labels = samples(4)
    order = torch.tensor([[0, 1], [2, 3], [3, 0]])
    batches = [Batch(images[:, row], labels[:, row], {}) for row in order]
    theirs, rates = client("dlg-lenet", batches, 0.1, defense=LearningRatePerturbation())
    assert_same(simulated_delta(lenet, images, one_hot(labels), rates, LocalSteps(order=order)), theirs)
    swapped = simulated_delta(lenet, images, one_hot(labels), rates, LocalSteps(order=order.flip(0)))
    assert not torch.allclose(swapped["conv1.weight"], theirs["conv1.weight"], rtol=0, atol=1e-8)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("weight_decay", [0.0, 1e-2])
def test_terms_without_weight_are_left_out_to_the_byte(lenet, monkeypatch, momentum, weight_decay):
    """A product with 0 changes nothing but the time that its derivative takes, on tensors as large as the weights."""
    images, labels = samples(2)
    rates, steps = torch.full((TRIALS, 3), 0.3, dtype=torch.float64), LocalSteps(momentum, weight_decay)

    def found():
        points = images.clone().requires_grad_()
        delta = simulated_delta(lenet, points, one_hot(labels), rates, steps)
        return [*delta.values(), *torch.autograd.grad([value.square().sum() for value in delta.values()], points)]

    short = found()
    written_out = staticmethod(lambda g, v, w: momentum * v + g + weight_decay * w)
    monkeypatch.setattr(LocalSteps, "heard", written_out)
    assert all(torch.equal(one, other) for one, other in zip(short, found(), strict=True))


def test_a_plain_step_hears_the_gradient_alone():
    gradient, velocity, weight = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 4.0)
    assert LocalSteps().heard(gradient, velocity, weight) is gradient
    assert LocalSteps(0.5, 0.25).heard(gradient, velocity, weight).tolist() == [3.0] * 3


def test_batch_normalisation_keeps_its_running_statistics():
    network = network_of("resnet-small", {"width": 4}, (1, 8, 8))
    statistics = {name: value.clone() for name, value in network.named_buffers()}
    images, labels = samples(2)
    rates = stream(0, "rates").uniform(TRIALS, 2) * 0.1
    ours = simulated_delta(network, images, one_hot(labels), rates, LocalSteps(0.5, 1e-2))
    for trial in range(TRIALS):
        own = network_of("resnet-small", {"width": 4}, (1, 8, 8)).requires_grad_()
        optimizer = torch.optim.SGD(own.parameters(), lr=1.0, momentum=0.5, weight_decay=1e-2)
        for rate in rates[trial].tolist():
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            F.cross_entropy(own(images[trial]), labels[trial]).backward()
            optimizer.step()
        theirs = {n: p.detach() - network.get_parameter(n) for n, p in own.named_parameters()}
        assert_same({name: value[trial] for name, value in ours.items()}, theirs, 1e-12)
    assert all(torch.equal(value, statistics[name]) for name, value in network.named_buffers())


@pytest.mark.parametrize("steps", [LocalSteps(), LocalSteps(0.5, 1e-2, torch.tensor([[0], [1], [0]]))])
def test_derivatives_equal_finite_differences(lenet, steps):
    draws = stream(4, "derivative")
    images, targets, rates = (
        draws.uniform(2, 2, 1, 8, 8),
        torch.softmax(draws.normal(2, 2, 10), -1),
        draws.uniform(2, 3),
    )
    weights = {name: draws.normal(2, *p.shape) for name, p in lenet.named_parameters()}

    def value(*unknowns):
        delta = simulated_delta(lenet, *unknowns, steps)
        return sum((delta[name] * weight).sum() for name, weight in weights.items())

    point = [tensor.requires_grad_() for tensor in (images, targets, rates)]
    found = torch.autograd.grad(value(*point), point)
    for place, derivative in enumerate(found):
        along = draws.normal(*derivative.shape)
        ahead, behind = ([p + h * along if i == place else p for i, p in enumerate(point)] for h in (1e-5, -1e-5))
        numerical = (value(*ahead) - value(*behind)) / 2e-5
        assert torch.allclose((derivative * along).sum(), numerical, rtol=1e-6)


def test_a_trial_does_not_depend_on_the_others(lenet):
    images, labels = samples(2)
    rates = stream(0, "rates").uniform(TRIALS, 3)
    together = simulated_delta(lenet, images, one_hot(labels), rates)
    alone = simulated_delta(lenet, images[1:2], one_hot(labels[1:2]), rates[1:2])
    for name, delta in alone.items():
        assert torch.allclose(delta[0], together[name][1], rtol=0, atol=1e-14), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": torch.ones(2, 3)}, "need rates"),
        ({"rates": torch.ones(TRIALS, 0)}, "at least one step"),
        ({"targets": torch.ones(TRIALS, 2)}, "class probabilities"),
        ({"steps": LocalSteps(order=torch.zeros(2, 1, dtype=torch.long))}, "batch order for 3 steps"),
        ({"steps": LocalSteps(order=torch.full((3, 1), 2))}, "samples 0 to 1"),
    ],
)
def test_what_does_not_belong_together_is_refused(lenet, change, message):
    images, labels = samples(2)
    given = {"images": images, "targets": one_hot(labels), "rates": torch.ones(TRIALS, 3), **change}
    with pytest.raises(UserError, match=message):
        simulated_delta(lenet, **given)


def test_a_network_in_training_state_is_refused(lenet):
    images, labels = samples(1)
    with pytest.raises(UserError, match="evaluation state"):
        simulated_delta(lenet.train(), images, one_hot(labels), torch.ones(TRIALS, 1))


@pytest.mark.parametrize("wrong", [{"momentum": 1.0}, {"momentum": -0.1}, {"weight_decay": -1e-4}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UserError, match="simulated steps"):
        LocalSteps(**wrong)
