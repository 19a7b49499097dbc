"""The text network: its initial law, embeddings in place of ids, padding, and second derivatives."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE, BertClassifier, embeddings_of, logits_of
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

VOCABULARY, CLASSES = 23, 2
TINY = BertClassifier(layers=2, width=8, heads=2, positions=10, spread=0.3)


@pytest.fixture(scope="module")
def network():
    return TINY.initialised(VOCABULARY, CLASSES, seed=3, dtype=torch.float64)


@pytest.fixture(scope="module")
def ids():
    return stream(1, "ids").integers(1, VOCABULARY, 3, 7)


def parameter_gradients(network, embeddings, labels, mask=None):
    parameters = {n: p.detach().requires_grad_() for n, p in network.named_parameters() if n != WORD_TABLE}
    loss = F.cross_entropy(logits_of(network, embeddings, mask, parameters), labels)
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()), create_graph=True), strict=True))


def test_the_default_has_the_size_that_it_says():
    network = plugins.load("models/text", "bert-classifier").build(100, 2)
    shapes = {name: tuple(value.shape) for name, value in network.named_parameters()}
    layers = {name.split(".")[3] for name in shapes if ".layer." in name}
    assert layers == {"0", "1", "2", "3"}
    assert shapes[WORD_TABLE] == (100, 128)
    assert shapes[POSITION_TABLE] == (64, 128)
    assert list(shapes)[-2:] == ["classifier.weight", "classifier.bias"]
    assert not any(value.any() for value in network.parameters())
    assert not network.training
    dropped = [layer.p for layer in network.modules() if isinstance(layer, torch.nn.Dropout)]
    assert set(dropped) == {0.0}
    assert network.config._attn_implementation == "eager"
    assert network.config.hidden_act == "gelu"


def test_the_initial_law():
    network = BertClassifier(layers=1, width=64).initialised(500, 2, seed=5, dtype=torch.float64)
    for name, value in network.named_parameters():
        if name.endswith("LayerNorm.weight"):
            assert (value == 1).all(), name
        elif name.endswith("bias"):
            assert not value.any(), name
        elif value.numel() > 1000:
            assert float(value.detach().std()) == pytest.approx(0.02, rel=0.05), name
    assert not network.get_parameter(WORD_TABLE)[0].any()
    assert network.get_parameter(WORD_TABLE)[1:].any(1).all()


def test_a_seed_gives_the_same_weights_and_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    first, again, other = (TINY.initialised(VOCABULARY, CLASSES, seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    double = TINY.initialised(VOCABULARY, CLASSES, 1, torch.float64)
    for (name, a), b, d in zip(first.named_parameters(), again.parameters(), double.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert torch.equal(a, d.float()), name
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_embeddings_stand_for_ids(network, ids):
    assert torch.equal(network(input_ids=ids).logits, logits_of(network, embeddings_of(network, ids)))
    assert not torch.allclose(logits_of(network, embeddings_of(network, ids)), network(input_ids=ids.flip(1)).logits)


def test_given_parameters_take_the_place_of_the_networks_own(network, ids):
    shift = torch.tensor([1.0, -2.0], dtype=torch.float64)
    embeddings = embeddings_of(network, ids)
    moved = logits_of(network, embeddings, parameters={"classifier.bias": shift})
    assert torch.allclose(moved, logits_of(network, embeddings) + shift)
    assert not network.classifier.bias.any()


def test_padding_has_no_part_in_logits_and_gradients(network, ids):
    labels = torch.tensor([0, 1, 1])
    padded = F.pad(ids, (0, 3))
    mask = (torch.arange(10) < 7).long().expand(3, 10)
    short, long = embeddings_of(network, ids), embeddings_of(network, padded)
    assert torch.allclose(logits_of(network, long, mask), logits_of(network, short), rtol=1e-12)
    with_padding = parameter_gradients(network, long, labels, mask)
    for name, gradient in parameter_gradients(network, short, labels).items():
        assert torch.allclose(with_padding[name], gradient, rtol=1e-9, atol=1e-13), name
    assert not torch.allclose(logits_of(network, long), logits_of(network, short), rtol=1e-6)


def test_second_derivatives_equal_finite_differences(network, ids):
    labels = torch.tensor([0, 1, 1])
    embeddings = embeddings_of(network, ids).detach().requires_grad_()
    weights = {name: stream(2, name).normal(*value.shape) for name, value in network.named_parameters()}

    def functional(at):
        return sum((weights[name] * g).sum() for name, g in parameter_gradients(network, at, labels).items())

    (derivative,) = torch.autograd.grad(functional(embeddings), embeddings)
    direction, step = stream(4, "direction").normal(*embeddings.shape), 1e-6
    numerical = (functional(embeddings + step * direction) - functional(embeddings - step * direction)) / (2 * step)
    assert float((derivative * direction).sum()) == pytest.approx(float(numerical.detach()), rel=1e-6)
    assert float(derivative.norm()) > 1e-3


def test_sizes_that_do_not_fit_are_refused():
    for wrong in ({"width": 9}, {"layers": 0}, {"heads": 0}, {"positions": 0}):
        with pytest.raises(UserError, match=r"bert-classifier: .* at least"):
            BertClassifier(**wrong).build(10, 2)
    with pytest.raises(UserError, match="it needs a token"):
        BertClassifier().build(10, 1)
