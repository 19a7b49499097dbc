"""Decoders of today: their law, their losses, LoRA beside frozen matrices, and the first block as a function."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from leaklab.models.text.base import BertClassifier
from leaklab.models.text.decoders import Gpt2, Llama, gradients_of, loss_of
from leaklab.models.text.first_block import first_block, sentence_inputs
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

VOCABULARY, CLASSES = 30, 2
SIZE = {"layers": 2, "width": 16, "heads": 4, "positions": 12, "spread": 0.3}
FAMILIES = {"gpt2": Gpt2, "llama": Llama, "bert": BertClassifier}
# where the inputs of the first perceptron and of the second block's attention enter
ENTRANCES = {
    "gpt2": ("transformer.h.0.mlp.c_fc", "transformer.h.1.attn.c_attn"),
    "llama": ("model.layers.0.mlp.up_proj", "model.layers.1.self_attn.v_proj"),
    "bert": ("bert.encoder.layer.0.intermediate.dense", "bert.encoder.layer.1.attention.self.value"),
}


def network_of(family, seed=3, dtype=torch.float64, **settings):
    return FAMILIES[family](**SIZE | settings).initialised(VOCABULARY, CLASSES, seed, dtype)


@pytest.fixture(scope="module")
def ids():
    return stream(1, "ids").integers(1, VOCABULARY, 3, 7)


def entered(network, names, ids):
    taken, hooks = {}, []
    for name in names:
        layer = network.get_submodule(name)
        hooks.append(layer.register_forward_pre_hook(lambda _, given, name=name: taken.update({name: given[0]})))
    with torch.no_grad():
        network(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return [taken[name] for name in names]


@pytest.mark.parametrize("settings", [{}, {"rank": 3, "lora": "trained"}], ids=["full", "lora"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_the_first_block_is_that_of_the_network(family, settings, ids):
    if family == "bert" and settings:
        pytest.skip("the house's encoder has no LoRA")
    network = network_of(family, **settings)
    expected = entered(network, ENTRANCES[family], ids)
    for row, tokens in enumerate(ids):
        for own, theirs in zip(sentence_inputs(first_block(network), tokens), expected, strict=True):
            assert_close(own, theirs[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_seed_gives_the_same_weights_and_the_global_generator_is_not_touched(family):
    before = torch.get_rng_state()
    first, again, other = (network_of(family, seed, torch.float32) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    for (name, a), b, c in zip(first.named_parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert not torch.equal(a, c) or a.dim() == 1, name
        assert bool(a.isfinite().all()), name
    assert not any(value.any() for value in FAMILIES[family](**SIZE).build(VOCABULARY, CLASSES).parameters())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_padding_has_no_part_in_a_loss(family, ids):
    for loss, labels in (("classes", torch.tensor([0, 1, 1])), ("next-token", None)):
        network = network_of(family, loss=loss)
        assert_close(loss_of(network, F.pad(ids, (0, 4)), labels), loss_of(network, ids, labels), rtol=1e-12, atol=0)


def test_the_next_tokens_loss_is_the_mean_over_all_places_but_the_last(ids):
    network = network_of("gpt2", loss="next-token")
    chances = network(input_ids=ids).logits.log_softmax(2)
    own = [-float(chances[row, place, ids[row, place + 1]].detach()) for row in range(3) for place in range(6)]
    assert float(loss_of(network, ids, None).detach()) == pytest.approx(sum(own) / len(own), rel=1e-12)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_lora_starts_as_the_network_without_it_and_is_all_that_moves(family, ids):
    plain, adapted = network_of(family), network_of(family, rank=3)
    assert torch.equal(plain(input_ids=ids).logits, adapted(input_ids=ids).logits)
    names = [name.rpartition(".")[2] for name, _ in adapted.named_parameters()]
    assert sorted(names) == ["A_q", "A_q", "A_v", "A_v", "B_q", "B_q", "B_v", "B_v"]
    gradients = gradients_of(adapted, ids, torch.tensor([0, 1, 1]))
    for name, value in gradients.items():
        assert bool(value.any()) == (".B_" in name), name  # what comes back to A goes through B, which is zero
    trained = network_of(family, rank=3, lora="trained")
    assert not torch.allclose(plain(input_ids=ids).logits, trained(input_ids=ids).logits)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_lora_is_a_thin_product_beside_its_matrix(family, ids):
    """As if the product were added to the matrix itself."""
    adapted, merged = network_of(family, rank=3, lora="trained", adapted="v"), network_of(family)
    with torch.no_grad():
        for number in range(2):
            if family == "gpt2":
                own, into = (one.transformer.h[number].attn.c_attn for one in (adapted, merged))
                into.weight[:, -16:] += 2.0 * (own.B_v @ own.A_v).T
            else:
                own, into = (one.model.layers[number].self_attn.v_proj for one in (adapted, merged))
                into.weight += 2.0 * own.B_v @ own.A_v
    assert_close(adapted(input_ids=ids).logits, merged(input_ids=ids).logits, rtol=1e-10, atol=1e-12)


def test_tied_tables_are_one_parameter():
    names = {tied: dict(network_of("gpt2", loss="next-token", tied=tied).named_parameters()) for tied in (True, False)}
    assert set(names[False]) - set(names[True]) == {"lm_head.weight"}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("gpt2", {"width": 18}, "multiple of the heads"),
        ("llama", {"groups": 3}, "groups that divide the heads"),
        ("llama", {"width": 12}, "even number of units"),
        ("gpt2", {"rank": 17}, "wider than the network"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, settings, said):
    with pytest.raises(UserError, match=said):
        FAMILIES[name](**SIZE | settings).build(VOCABULARY, CLASSES)


def test_they_are_plug_ins_of_the_house():
    network = plugins.load("models/text", "gpt2-classifier", {"layers": 1, "width": 8, "heads": 2}).build(9, 2)
    own = plugins.load("models/text", "llama-classifier", SIZE).initialised(VOCABULARY, CLASSES, 3)
    plain = network_of("llama", 3, torch.float32).parameters()
    for (name, value), other in zip(own.named_parameters(), plain, strict=True):
        assert torch.equal(value, other), name
    with pytest.raises(UserError, match="no second one"):
        first_block(network).onward(torch.zeros(1, 8))
    with pytest.raises(UserError, match="Linear is read as none"):
        first_block(torch.nn.Linear(2, 2))
