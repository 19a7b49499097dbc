"""Text in local training: its gradients are those of plain autograd, and padding has no part in them."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.federated.batches import Batch
from leaklab.federated.forms.one_by_one import TextNetwork
from leaklab.federated.local import local_training
from leaklab.models.text.base import BertClassifier

SENTENCES = ([2, 7, 9, 7, 3], [2, 5, 3], [2, 8, 4, 6, 9, 10, 3])
LABELS = (1, 0, 1)
RATE = 0.05


@pytest.fixture(scope="module")
def network():
    return BertClassifier(layers=2, width=16, heads=2, positions=12, spread=0.1).initialised(20, 2, 3, torch.float64)


@pytest.fixture(scope="module")
def batch():
    """Three groups of one sentence each, padded to one length more than the longest."""
    ids = torch.tensor([[*sentence, *[0] * (8 - len(sentence))] for sentence in SENTENCES])
    return Batch(ids[:, None], torch.tensor(LABELS)[:, None], {})


def plain_gradients(network, sentences, labels):
    """Return loss and gradients of sentences of equal length, from token ids without any mask."""
    loss = F.cross_entropy(network(input_ids=torch.tensor(sentences)).logits, torch.tensor(labels))
    names = [name for name, _ in network.named_parameters()]
    return loss, dict(zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True))


def stacked(network, models):
    return {name: value.detach().expand(models, *value.shape) for name, value in network.named_parameters()}


def test_gradients_are_those_of_autograd_on_each_sentence_alone(network, batch):
    losses, gradients = TextNetwork(network).gradients(stacked(network, 3), batch)
    for model, (sentence, label) in enumerate(zip(SENTENCES, LABELS, strict=True)):
        loss, expected = plain_gradients(network, [sentence], [label])
        assert float(losses[model]) == pytest.approx(float(loss.detach()), rel=1e-12)
        assert list(gradients) == list(expected)
        for name, value in expected.items():
            assert torch.allclose(gradients[name][model], value, rtol=1e-10, atol=1e-14), name


def test_a_batch_of_several_sentences_has_the_mean_gradient(network):
    pair = ([2, 7, 9, 3], [2, 5, 6, 3])
    own = Batch(torch.tensor(pair)[None], torch.tensor([[0, 1]]), {})
    _, gradients = TextNetwork(network).gradients(stacked(network, 1), own)
    _, expected = plain_gradients(network, pair, [0, 1])
    for name, value in expected.items():
        assert torch.allclose(gradients[name][0], value, rtol=1e-10, atol=1e-14), name


def test_models_of_a_group_see_the_same_sentence(network, batch):
    losses, _ = TextNetwork(network).gradients(stacked(network, 6), batch)
    alone, _ = TextNetwork(network).gradients(stacked(network, 3), batch)
    assert torch.equal(losses, alone.repeat_interleave(2))


def test_logits_have_the_shape_of_all_networks(network, batch):
    logits = TextNetwork(network).logits(stacked(network, 3), batch.images, {})
    assert logits.shape == (3, 2, 1)
    expected = network(input_ids=torch.tensor([SENTENCES[1]])).logits[0]
    assert torch.allclose(logits[1, :, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("defense", [NoDefense(), LearningRatePerturbation()], ids=["none", "lrp"])
def test_one_local_step_goes_against_the_gradient_by_the_rate(network, batch, defense):
    contexts = [ClientContext(scaled_rate=RATE, seed=4, client=client) for client in range(3)]
    before = stacked(network, 3)
    result = local_training(TextNetwork(network), before, [batch], contexts, defense)
    assert ((result.rates == RATE).all()) == isinstance(defense, NoDefense)
    for model, (sentence, label) in enumerate(zip(SENTENCES, LABELS, strict=True)):
        _, expected = plain_gradients(network, [sentence], [label])
        for name, value in expected.items():
            moved = before[name][model] - result.weights[name][model]
            assert torch.allclose(moved, float(result.rates[model, 0]) * value, rtol=1e-6, atol=1e-14), name


def test_two_local_steps_are_two_steps_of_gradient_descent(network, batch):
    contexts = [ClientContext(scaled_rate=RATE, seed=4, client=client) for client in range(3)]
    result = local_training(TextNetwork(network), stacked(network, 3), [batch, batch], contexts, NoDefense())
    again = BertClassifier(layers=2, width=16, heads=2, positions=12).build(20, 2).double()
    again.load_state_dict(network.state_dict())
    for _ in range(2):
        _, gradients = plain_gradients(again, [SENTENCES[0]], [LABELS[0]])
        with torch.no_grad():
            for name, parameter in again.named_parameters():
                parameter -= RATE * gradients[name]
    for name, value in again.named_parameters():
        assert torch.allclose(result.weights[name][0], value, rtol=1e-9, atol=1e-12), name
