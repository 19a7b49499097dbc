"""Captures of networks with running statistics, and the client's state, schedule and input scale."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.base import victim
from leaklab.attacks.labels.head import head
from leaklab.attacks.matching.gradients import trial_gradients
from leaklab.attacks.matching.module_gradients import gradient_products
from leaklab.captures.capture import capture
from leaklab.models.resnets import SmallResNet
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec

EXACT = {"rtol": 0, "atol": 1e-10}
RESNET = {"name": "resnet-small", "settings": {"width": 4}}


def spec(**changes):
    fields = {"dataset": "digits", "images": {"count": 4, "seed": 1}, "model": RESNET, "rate": 0.05, "batch_size": 2}
    return CaptureSpec.model_validate({**fields, **changes})


def plain_round(truth, trial, steps, training, images=None):
    """Plain gradient descent by torch's own modules; returns the delta of each parameter."""
    network = SmallResNet(width=4).initialised((1, 8, 8), 10, 0, torch.float64).train(training)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    inputs = truth.images[trial] if images is None else images
    for rate in truth.rates[trial, :steps].tolist():
        loss = F.cross_entropy(network(inputs), truth.labels[trial])
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(network.parameters(), gradients, strict=True):
                parameter -= rate * gradient
    return [after.detach() - b for after, b in zip(network.parameters(), before, strict=True)]


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_the_update_is_that_of_torch_modules_in_the_stated_state(dataset, mode):
    observation, _, truth = capture(spec(mode=mode, kind="delta", local_steps=3, defense="lrp", draws=2), dataset)
    for trial in range(4):
        expected = plain_round(truth, trial, 3, mode == "train")
        for seen, delta in zip(observation.update.values(), expected, strict=True):
            torch.testing.assert_close(seen[trial], delta, **EXACT)


def test_running_statistics_are_broadcast_and_load_into_the_victim(dataset, tmp_path):
    observation, knowledge, truth = capture(spec(), dataset)
    files = tmp_path / "o.safetensors", tmp_path / "o.json"
    save_observation(*files, observation, knowledge)
    back, known = load_observation(*files)
    assert set(back.buffers) == set(observation.buffers) != set()
    network = victim(back, known, "test")
    assert not network.training
    targets = F.one_hot(truth.labels, 10).double()
    inner, norm = gradient_products(network, truth.images, targets, list(back.update.values()))
    torch.testing.assert_close(inner, norm)  # the observation is the gradient at the truth


def test_a_schedule_inside_the_round_is_known_to_the_server(dataset):
    inverse = spec(rate_schedule="inverse", local_steps=4)
    observation, knowledge, truth = capture(inverse, dataset)
    torch.testing.assert_close(truth.rates[0], 0.05 / torch.arange(1.0, 5.0).double())
    delta = capture(spec(rate_schedule="inverse", local_steps=4, kind="delta"), dataset)[0]
    inferred = delta.as_gradient(knowledge)
    for name, value in observation.update.items():
        torch.testing.assert_close(inferred.update[name], value)
        torch.testing.assert_close(delta.update[name], -value * 0.05 * (1 + 1 / 2 + 1 / 3 + 1 / 4))


def test_inputs_are_on_the_stated_scale_and_the_truth_is_not(dataset):
    observation, knowledge, truth = capture(spec(kind="delta", input_range=[-1.0, 1.0]), dataset)
    assert (float(truth.images.min()), float(truth.images.max())) == (0.0, 1.0)
    assert knowledge.facts["input_range"] == [-1.0, 1.0]
    for seen, delta in zip(
        observation.update.values(), plain_round(truth, 0, 1, False, 2 * truth.images[0] - 1), strict=True
    ):
        torch.testing.assert_close(seen[0], delta, **EXACT)
    with pytest.raises(ValueError, match="smallest first"):
        spec(input_range=[1.0, 0.0])


class TestHiddenParameters:
    def test_what_stays_with_the_client_is_missing_from_the_update_only(self, dataset):
        everything = capture(spec(), dataset)[0]
        for defense, part in (("hide-bn", "bn"), ("hide-classifier", "fc")):
            observation, _, _ = capture(spec(defense=defense), dataset)
            missing = set(observation.weights) - set(observation.update)
            assert missing == {name for name in everything.update if part in name}
            for name, value in observation.update.items():
                torch.testing.assert_close(value, everything.update[name], **EXACT)

    @pytest.mark.parametrize("defense", ["hide-bn", "hide-classifier"])
    def test_the_attackers_network_has_the_observed_parameters_only(self, dataset, defense):
        observation, knowledge, truth = capture(spec(defense=defense), dataset)
        network = victim(observation, knowledge, "test")
        assert [name for name, _ in network.named_parameters()] == list(observation.update)
        targets = F.one_hot(truth.labels, 10).double()
        for found, seen in zip(
            trial_gradients(network)(network, truth.images, targets), observation.update.values(), strict=True
        ):
            torch.testing.assert_close(found, seen, **EXACT)
        inner, norm = gradient_products(network, truth.images, targets, list(observation.update.values()))
        torch.testing.assert_close(inner, norm)

    def test_a_plain_network_without_its_classifier_is_matched_too(self, dataset):
        observation, knowledge, truth = capture(spec(defense="hide-classifier", model="dlg-lenet"), dataset)
        network = victim(observation, knowledge, "test")
        targets = F.one_hot(truth.labels, 10).double()
        found = trial_gradients(network)(network, truth.images, targets)
        for gradient, seen in zip(found, observation.update.values(), strict=True):
            torch.testing.assert_close(gradient, seen, **EXACT)

    def test_no_label_is_read_off_a_hidden_classifier(self, dataset):
        with pytest.raises(UserError, match="keeps its last layer to itself"):
            head(capture(spec(defense="hide-classifier"), dataset)[0])

    def test_a_network_without_normalization_has_nothing_to_hide(self, dataset):
        with pytest.raises(UserError, match="no batch normalization"):
            capture(spec(defense="hide-bn", model="dlg-lenet"), dataset)


class TestPerturbedRounds:
    def test_steps_differ_by_client_and_the_server_assumes_the_nominal_number(self, dataset):
        observation, knowledge, truth = capture(spec(defense="lsp", local_steps=4, draws=8, kind="delta"), dataset)
        done = truth.rates.isfinite().sum(1)
        assert len(done.unique()) > 3
        assert int(done.max()) <= 7
        assert int(done.min()) >= 1
        assert knowledge.facts["local_steps"] == 4
        for trial in (0, 9):
            expected = plain_round(truth, trial, int(done[trial]), False)
            for seen, delta in zip(observation.update.values(), expected, strict=True):
                torch.testing.assert_close(seen[trial], delta, **EXACT)

    def test_batches_differ_and_a_full_one_is_the_clients_own(self, dataset):
        plain = capture(spec(images={"count": 4, "seed": 1}, batch_size=4), dataset)[0]
        found = capture(spec(images={"count": 4, "seed": 1}, batch_size=4, defense="bsp", draws=12), dataset)[0]
        name = next(iter(plain.update))
        full = [torch.allclose(value, plain.update[name][0], **EXACT) for value in found.update[name]]
        assert 0 < sum(full) < 12  # U{1..7} is cut to 4: more than half of the draws are full batches

    def test_a_trial_does_not_depend_on_how_many_there_are(self, dataset):
        few, many = (capture(spec(defense="lsp", local_steps=2, draws=draws), dataset)[0] for draws in (1, 3))
        for name, value in few.update.items():
            torch.testing.assert_close(value, many.update[name][[0, 3]], **EXACT)
