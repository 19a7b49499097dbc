"""Decoders under noise, pruning and several steps: the nearest prefixes are the sentences, and nothing is proven."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.spans.moved import midway
from leaklab.attacks.spans.nearest import APART, leading, likeliest, nearest_prefixes
from leaklab.attacks.spans.reading import read_or_rank
from leaklab.attacks.spans.span import Candidates
from leaklab.defenses.base import ClientContext
from leaklab.defenses.outpost import GradientCompression
from leaklab.models.text.decoders import gradients_of
from leaklab.records.streams import stream

NEXT = {"loss": "next-token", "width": 128}
LENGTHS = (7, 6, 5, 9)


def blurred(update, share, seed=0):
    """Return an update with noise that is so long beside it."""
    draws = stream(seed, "noise")
    length = sum(float(value.double().square().sum()) for value in update.values()) ** 0.5
    sigma = share * length / sum(value.numel() for value in update.values()) ** 0.5
    return {name: value + sigma * draws.normal(*value.shape).to(value) for name, value in update.items()}


def told(sent, update):
    found = read_or_rank(sent.network, update, lambda: max(LENGTHS), len(LENGTHS), change=1.0)
    assert not found.proven
    return found


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("share", [1e-3, 1e-2, 0.05])
def test_noise_hides_no_order_where_it_leaves_no_rank(sends, family, share):
    sent = sends(family, LENGTHS, dtype=torch.float32, **NEXT)
    found = told(sent, blurred(sent.update, share))
    assert found.way == "nearest"
    assert set(found.sentences) == sent.sentences


def test_pruning_hides_no_order_where_half_of_a_gradient_is_left(sends):
    sent = sends("gpt2", LENGTHS, dtype=torch.float32, **NEXT)
    pruned = GradientCompression(dropped=0.5).gradient(sent.update, ClientContext(scaled_rate=1.0, seed=0, client=0))
    assert set(told(sent, pruned).sentences) == sent.sentences


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_several_steps_hide_no_order(sends, family):
    sent = sends(family, LENGTHS, dtype=torch.float32, **NEXT)
    before = {name: value.detach().clone() for name, value in sent.network.named_parameters()}
    for _ in range(4):
        gradients = gradients_of(sent.network, sent.ids, None)
        with torch.no_grad():
            for name, value in sent.network.named_parameters():
                value.sub_(0.01 * gradients[name])
    update = {name: before[name] - value.detach() for name, value in sent.network.named_parameters()}
    sent.network.load_state_dict(before, strict=False)
    found = read_or_rank(midway(sent.network, update, 1.0, 4), update, lambda: max(LENGTHS), len(LENGTHS), change=1.0)
    assert not found.proven
    assert {one[:-1] for one in found.sentences} == {one[:-1] for one in sent.sentences}


def test_noise_alone_has_no_sentences(sends):
    sent = sends("gpt2", LENGTHS, dtype=torch.float32, **NEXT)
    for seed in range(5):
        found = told(sent, blurred({name: 1e-6 * value for name, value in sent.update.items()}, 1e6, seed))
        assert not set(found.sentences) & sent.sentences


def test_true_prefixes_come_before_all_false_ones(sends):
    sent = sends("gpt2", LENGTHS, dtype=torch.float64, **NEXT)
    blurry = replace(sent, update=blurred(sent.update, 0.02))
    most = len(LENGTHS) * max(LENGTHS)
    words = leading(blurry.columns("attention"), most)
    accepted = likeliest(Candidates(sent.block), words, max(LENGTHS), len(LENGTHS))
    found = nearest_prefixes(sent.block, accepted, leading(blurry.columns("mlp"), most), most)
    tree = found.prefixes
    assert {tree.sentence(number) for number in range(len(tree))} == sent.prefixes
    assert found.gap > APART
