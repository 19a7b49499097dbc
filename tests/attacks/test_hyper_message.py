"""The message of a hypernetwork as mathematics: its products are autograd's (F7), and steps can be undone."""

from dataclasses import fields

import pytest
import torch
from torch.func import functional_call, jvp
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from leaklab.attacks.matching.steps import coefficients, mean_gradient
from leaklab.attacks.private_parts.hypernetwork import Heads, LowerLevel
from leaklab.models.cnns import LeakyCNN
from leaklab.models.hypernetwork import Hypernetwork
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

EXACT = {"rtol": 1e-10, "atol": 1e-14}
SHAPE, CLASSES = (1, 16, 16), 6
GENERATOR = Hypernetwork(embedding=5, hidden=12)


@pytest.fixture(scope="module", params=["biases", "weights", "pytorch"])
def client(request):
    """A network whose extractor is generated, a hypernetwork that starts in one of its ways, and its client."""
    network = LeakyCNN(hidden=9).initialised(SHAPE, CLASSES, 3, torch.float64)
    first = {name: value.detach() for name, value in network.named_parameters()}
    extractor = {name: value for name, value in first.items() if not name.startswith("fc2.")}
    generator = Hypernetwork(5, 12, request.param)
    sent = generator.first_weights(extractor, stream(4, "hypernetwork"))
    own = {name: value for name, value in first.items() if name not in extractor}
    image, label = stream(5, "image").uniform(1, *SHAPE), torch.tensor([2])
    return network, generator, sent, stream(6, "embedding").normal(5), own, (image, label)


def loss_of(client, sent, embedding):
    network, generator, _, _, own, (image, label) = client
    return F.cross_entropy(functional_call(network, {**generator(sent, embedding), **own}, (image,)), label)


def order(client):
    return [name for name, _ in client[0].named_parameters()]


def gradients(client):
    """Return autograd's gradient of the client's loss at the hypernetwork, and at the weights that it generates."""
    network, generator, sent, embedding, own, (image, label) = client
    tracked = {name: value.clone().requires_grad_() for name, value in sent.items()}
    at_sent = torch.autograd.grad(loss_of(client, tracked, embedding), list(tracked.values()))
    made = {name: value.clone().requires_grad_() for name, value in generator(sent, embedding).items()}
    at_made = torch.autograd.grad(
        F.cross_entropy(functional_call(network, {**made, **own}, (image,)), label), list(made.values())
    )
    return dict(zip(tracked, at_sent, strict=True)), dict(zip(made, at_made, strict=True))


def flat(heads, tensors):
    return torch.cat([tensors[name].flatten() for name in heads.shapes])


def test_reading_a_message_and_writing_it_again_changes_nothing(client):
    sent = client[2]
    again = Heads.of(sent, order(client), "the test").tensors()
    assert set(again) == set(sent)
    assert all(torch.equal(again[name], value) for name, value in sent.items())


def test_generated_weights_are_those_of_the_hypernetwork(client):
    _, generator, sent, embedding, *_ = client
    heads = Heads.of(sent, order(client), "the test")
    found = heads.apart(heads.generated(heads.hidden(embedding)))
    assert list(found) == [name for name in order(client) if not name.startswith("fc2.")]
    for name, value in generator(sent, embedding).items():
        assert_close(found[name], value, **EXACT)


def test_the_chain_rule_that_is_printed_wrong_is_the_derivative_at_the_extractor_through_the_heads(client):
    """Below equation 9 the paper multiplies the classifier's gradient by a factor of zero; this one is autograd's."""
    heads = Heads.of(client[2], order(client), "the test")
    at_sent, at_made = gradients(client)
    found = heads.gradient(client[3], flat(heads, at_made)).tensors()
    assert all(value.abs().sum() > 0 for value in at_sent.values())
    for name, value in at_sent.items():
        assert_close(found[name], value, **EXACT)


def test_a_direction_pushed_through_the_heads_is_the_directional_derivative(client):
    _, generator, sent, embedding, *_ = client
    heads = Heads.of(sent, order(client), "the test")
    way = {name: stream(7, name).normal(*value.shape) for name, value in sent.items()}
    _, expected = jvp(lambda weights: generator(weights, embedding), (dict(sent),), (way,))
    found = heads.through(embedding, Heads.of(way, order(client), "the test"))
    assert_close(found, flat(heads, expected), **EXACT)


def explicit(generator, sent, observed, theta, embedding):
    """Return |grad_phi |h(v; phi) - theta|^2 / 2 - o|^2 with a gradient at phi that autograd forms."""
    tracked = {name: value.clone().requires_grad_() for name, value in sent.items()}
    misses = [value - theta[name] for name, value in generator(tracked, embedding).items()]
    level = sum(miss.square().sum() for miss in misses) / 2
    formed = torch.autograd.grad(level, list(tracked.values()), create_graph=True)
    return sum((g - observed[name]).square().sum() for g, name in zip(formed, tracked, strict=True))


def test_the_two_level_attacks_gradients_are_autograds_explicit_products(client):
    """At an arbitrary point of equation (10), with theta and v moving."""
    generator, sent = client[1:3]
    heads = Heads.of(sent, order(client), "the test")
    at_sent, _ = gradients(client)
    observed = Heads.of(at_sent, order(client), "the test")
    lower = LowerLevel(heads, [observed, observed])
    points = stream(8, "points").normal(2, len(heads.c) + 5)
    value, derivative = lower(points, torch.tensor([0, 1]))
    for row in range(2):
        slope = (lower.unit[row] * points[row, :-5]).requires_grad_()
        v = points[row, -5:].clone().requires_grad_()
        theta = {name: made - part for (name, made), part in zip(
            sorted(generator(sent, v).items()), [heads.apart(slope)[name] for name in sorted(heads.shapes)], strict=True
        )}  # fmt: skip
        expected = explicit(generator, sent, at_sent, theta, v)
        scale = sum(g.square().sum() for g in at_sent.values())
        at_slope, at_v = torch.autograd.grad(expected, [slope, v])
        assert_close(value[row], (expected / scale).detach(), **EXACT)
        assert_close(derivative[row, :-5], at_slope * lower.unit[row] / scale, rtol=1e-9, atol=1e-12)
        assert_close(derivative[row, -5:], at_v / scale, rtol=1e-9, atol=1e-12)


def test_f1_the_lower_level_vanishes_at_the_hidden_gradient_and_embedding(client):
    heads = Heads.of(client[2], order(client), "the test")
    at_sent, at_made = gradients(client)
    lower = LowerLevel(heads, [Heads.of(at_sent, order(client), "the test")])
    truth = torch.cat([flat(heads, at_made) / lower.unit[0], client[3]])[None]
    value, derivative = lower(truth, torch.tensor([0]))
    assert value.abs() < 1e-12
    assert derivative.abs().max() < 1e-10


def test_the_lower_levels_unknowns_are_in_units_of_a_gradients_entry(client):
    """Each trial has its own; entries of both signs do not cancel."""
    heads = Heads.of(client[2], order(client), "the test")
    sent, doubled = ({name: factor * value for name, value in gradients(client)[0].items()} for factor in (1, 2))
    lower = LowerLevel(heads, [Heads.of(each, order(client), "the test") for each in (sent, doubled)])
    entries = Heads.of(sent, order(client), "the test").c.tolist()
    assert min(entries) < 0 < max(entries)
    size = (sum(entry**2 for entry in entries) / len(entries)) ** 0.5
    assert_close(lower.unit, torch.tensor([size, 2 * size], dtype=torch.float64), **EXACT)


class Largest(TorchDispatchMode):
    """Keeps the number of entries of the largest tensor that an operation made; a view has no entries of its own."""

    entries = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        made = function(*arguments, **(named or {}))
        given = {one.untyped_storage().data_ptr() for one in arguments if isinstance(one, torch.Tensor)}
        if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in given:
            self.entries = max(self.entries, made.numel())
        return made


def test_the_lower_level_makes_no_tensor_of_the_size_of_the_heads(client):
    """Squares of what was observed are summed once: in every step they took longer than all its products."""
    heads = Heads.of(client[2], order(client), "the test")
    lower = LowerLevel(heads, [Heads.of(gradients(client)[0], order(client), "the test")])
    points = stream(8, "points").normal(1, len(heads.c) + 5)
    with Largest() as seen:
        lower(points, torch.tensor([0]))
    assert seen.entries == points.numel()


@pytest.mark.parametrize("broken", ["heads", "bias", "another network"])
def test_other_messages_are_refused_with_one_line(client, broken):
    network = [name for name, _ in client[0].named_parameters()]
    sent = dict(client[2])
    if broken == "heads":
        sent = {name: value for name, value in sent.items() if "heads" not in name}
    elif broken == "bias":
        del sent["hypernetwork.heads.conv1.bias.bias"]
    else:
        network = ["layer.weight"]
    with pytest.raises(UserError, match="attack a capture of algorithm hyperfl") as caught:
        Heads.of(sent, network, "the test")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.0), (0.0, 5e-4), (0.5, 5e-4), (0.9, 0.1)])
def test_weights_after_steps_of_torchs_sgd_are_the_linear_function_that_is_undone(momentum, decay):
    rates, gradients = [0.02, 0.02, 0.05, 0.01], stream(9, "gradients").normal(4, 3)
    start = stream(9, "start").normal(3)
    weight = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=momentum, weight_decay=decay)
    for rate, gradient in zip(rates, gradients, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        weight.grad = gradient.clone()
        optimizer.step()
    kept, moved = coefficients(rates, momentum, decay)
    assert_close(weight.detach(), kept * start - torch.tensor(moved, dtype=torch.float64) @ gradients, **EXACT)


@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_the_mean_gradient_of_several_steps_is_the_hidden_one(kind):
    """Momentum and decay of HyperFL's training."""
    rate, steps, momentum, decay = 0.02, 6, 0.5, 5e-4
    gradients, start = stream(1, "gradients").normal(steps, 4), stream(1, "start").normal(4)
    kept, moved = coefficients([rate] * steps, momentum, decay)
    weights = torch.tensor(moved, dtype=torch.float64)
    delta = (kept - 1) * start - weights @ gradients
    update = delta if kind == "delta" else delta / (-rate * steps)
    observation = Observation({"w": start}, {"w": update[None]}, kind, "eval", {}, (0,))
    facts = {"nominal_rate": rate, "local_steps": steps, "weight_decay": decay}
    sgd = {"name": "sgd", "settings": {"momentum": momentum}}
    found = mean_gradient(observation, Knowledge("test", {**facts, "optimizer": sgd}), "the test")
    assert found.kind == "gradient"
    assert_close(found.update["w"][0], weights @ gradients / weights.sum(), **EXACT)
    plain = mean_gradient(observation, Knowledge("test", facts | {"weight_decay": 0.0}), "the test")
    assert (plain.update["w"][0] - found.update["w"][0]).abs().max() > 1e-3
    adam = Knowledge("test", {**facts, "optimizer": {"name": "adam", "settings": {}}})
    with pytest.raises(UserError, match="simulates clients with sgd, not with adam"):
        mean_gradient(observation, adam, "the test")


def test_heads_know_all_of_their_weights(client):
    heads = Heads.of(client[2], order(client), "the test")
    parts = sum(getattr(heads, f.name).square().sum() for f in fields(heads) if f.name != "shapes")
    assert_close(heads.squared_norm(), parts, **EXACT)
    assert_close(parts, sum(value.square().sum() for value in client[2].values()), **EXACT)
