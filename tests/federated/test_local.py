"""Local training: the defense's hooks act where they should, for every client by itself."""

from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.defenses.base import ClientContext, Defense, NoDefense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.batches import Batch
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.federated.local import local_training
from leaklab.federated.optimizers import Sgd
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, TRIALS = (1, 28, 28), 10, 3
EXACT = {"rtol": 0, "atol": 1e-13}


@pytest.fixture
def module():
    return plugins.load("models", "dlg-lenet").initialised(SHAPE, CLASSES, seed=1, dtype=torch.float64)


@pytest.fixture
def network(module):
    return StackedNetwork(module, SHAPE)


@pytest.fixture
def weights(module):
    return {n: p.detach().expand(TRIALS, *p.shape) for n, p in module.named_parameters()}


@pytest.fixture
def batch():
    """One image a trial, as in the capture of an attacked update."""
    draws = stream(0, "trials")
    return Batch(draws.normal(TRIALS, 1, *SHAPE), draws.integers(0, CLASSES, TRIALS, 1), {})


@pytest.fixture
def contexts():
    return [ClientContext(scaled_rate=0.1, seed=0, client=trial) for trial in range(TRIALS)]


def gradients(module, batch, trial):
    own = {n: p.detach().clone().requires_grad_() for n, p in module.named_parameters()}
    loss = F.cross_entropy(functional_call(module, own, (batch.images[trial],)), batch.labels[trial])
    return dict(zip(own, torch.autograd.grad(loss, list(own.values())), strict=True))


def test_one_undefended_step_is_the_gradient_times_the_rate(module, network, weights, batch, contexts):
    result = local_training(network, weights, [batch], contexts, NoDefense())
    for trial in range(TRIALS):
        for name, gradient in gradients(module, batch, trial).items():
            assert_close(result.weights[name][trial], weights[name][trial] - 0.1 * gradient, **EXACT)
    assert_close(result.rates, torch.full((TRIALS, 1), 0.1, dtype=torch.float64))


def test_one_lrp_step_hides_only_a_scalar(module, network, weights, batch, contexts):
    result = local_training(network, weights, [batch], contexts, LearningRatePerturbation())
    assert len(set(result.rates.flatten().tolist())) == TRIALS
    for trial in range(TRIALS):
        for name, gradient in gradients(module, batch, trial).items():
            expected = weights[name][trial] - result.rates[trial, 0] * gradient
            assert_close(result.weights[name][trial], expected, **EXACT)


def test_a_trial_does_not_depend_on_the_others(network, weights, batch, contexts):
    together = local_training(network, weights, [batch] * 2, contexts, LearningRatePerturbation())
    last = Batch(batch.images[2:], batch.labels[2:], {})
    fresh = [ClientContext(scaled_rate=0.1, seed=0, client=2)]
    alone = local_training(
        network, {n: w[2:] for n, w in weights.items()}, [last] * 2, fresh, LearningRatePerturbation()
    )
    assert torch.equal(alone.rates[0], together.rates[2])
    assert_close({n: w[0] for n, w in alone.weights.items()}, {n: w[2] for n, w in together.weights.items()}, **EXACT)


@dataclass(frozen=True)
class ScaleOfOwnBatch(Defense):
    """Uses everything a hook may ask for: the context's weights, batch, step and stream."""

    def gradient(self, gradients, context):
        factor = context.batch["images"].mean() + context.weights["fc.bias"].sum() + context.step
        return {name: factor * gradient for name, gradient in gradients.items()}


def test_gradient_hook_sees_its_own_client(module, network, weights, batch, contexts):
    result = local_training(network, weights, [batch], contexts, ScaleOfOwnBatch())
    for trial in range(TRIALS):
        factor = batch.images[trial].mean() + module.fc.bias.detach().sum()
        gradient = factor * gradients(module, batch, trial)["conv1.weight"]
        expected = weights["conv1.weight"][trial] - 0.1 * gradient
        assert_close(result.weights["conv1.weight"][trial], expected, **EXACT)


@dataclass(frozen=True)
class HalfUpdate(Defense):
    def update(self, delta, context):
        assert context.step == 2
        return {name: value / 2 for name, value in delta.items()}


def test_update_hook_acts_on_the_sum_of_all_steps(network, weights, batch, contexts):
    full = local_training(network, weights, [batch] * 2, contexts, NoDefense(), optimizer=Sgd(0.5), weight_decay=0.1)
    half = local_training(network, weights, [batch] * 2, contexts, HalfUpdate(), optimizer=Sgd(0.5), weight_decay=0.1)
    for name, before in weights.items():
        assert_close(half.weights[name] - before, (full.weights[name] - before) / 2, **EXACT)


@dataclass(frozen=True)
class Neutral(Defense):
    """Overrides all hooks and changes nothing: the lifted road equals the quick one."""

    def local_rate(self, context):
        return torch.tensor(context.scaled_rate, dtype=torch.float32)

    def gradient(self, gradients, context):
        return gradients

    def update(self, delta, context):
        return delta


def test_lifting_neutral_hooks_changes_nothing(network, weights, batch, contexts):
    quick = local_training(network, weights, [batch] * 2, contexts, NoDefense(), optimizer=Sgd(0.5), weight_decay=0.1)
    lifted = local_training(network, weights, [batch] * 2, contexts, Neutral(), optimizer=Sgd(0.5), weight_decay=0.1)
    assert_close(lifted.weights, quick.weights, rtol=0, atol=1e-8)  # the rate was float32


def test_inputs_are_not_changed(network, weights, batch, contexts):
    before = {n: w.clone() for n, w in weights.items()}
    images = batch.images.clone()
    local_training(network, weights, [batch], contexts, ScaleOfOwnBatch(), optimizer=Sgd(0.5), weight_decay=0.1)
    assert_close(weights, before, rtol=0, atol=0)
    assert torch.equal(batch.images, images)


def test_a_schedule_inside_the_round_multiplies_the_rates(network, weights, batch, contexts):
    result = local_training(network, weights, [batch] * 2, contexts, NoDefense(), step_factors=(1.0, 0.25))
    assert_close(result.rates, torch.tensor([[0.1, 0.025]] * TRIALS, dtype=torch.float64), **EXACT)
    second = local_training(network, local_training(network, weights, [batch], contexts, NoDefense()).weights, [batch],
                            [replace(context, scaled_rate=0.025) for context in contexts], NoDefense())  # fmt: skip
    assert_close(result.weights, second.weights, **EXACT)


def test_without_a_network_at_hand_a_defense_says_so(network, weights, batch, contexts):
    @dataclass(frozen=True)
    class Curious(Defense):
        def gradient(self, gradients, context):
            context.network()
            return gradients

    with pytest.raises(UserError, match="looks into the network"):
        local_training(network, weights, [batch], contexts, Curious())


@dataclass(frozen=True)
class Misbehaved(Defense):
    """Gives one tensor another shape, forgets one, or returns something else."""

    fault: str
    hook: str

    def gradient(self, gradients, context):
        return self._faulty(gradients) if self.hook == "gradient" else gradients

    def update(self, delta, context):
        return self._faulty(delta) if self.hook == "update" else delta

    def _faulty(self, tensors):
        first, *others = tensors
        return {
            "shape": {**tensors, first: tensors[first][:1]},
            "name": {name: tensors[name] for name in others},
            "list": list(tensors.values()),
            "number": {**tensors, first: 0.0},
        }[self.fault]


@pytest.mark.parametrize("hook", ["gradient", "update"])
@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("shape", "as shape"),
        ("name", "return a mapping with the names"),
        ("list", "returned list"),
        ("number", "as float"),
    ],
)
def test_a_hook_that_returns_something_else_is_named(network, weights, batch, contexts, hook, fault, what):
    with pytest.raises(UserError) as caught:
        local_training(network, weights, [batch], contexts, Misbehaved(fault, hook))
    assert f"test_local.py: {hook} returned" in str(caught.value)
    assert what in str(caught.value)
