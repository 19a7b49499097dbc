"""Sentences of decoders: prefixes, last tokens, counts, and what is not a certificate."""

import pytest
import torch

from leaklab.attacks.spans.prefixes import Prefixes, ReadPrefixes
from leaklab.attacks.spans.reading import ranked, read
from leaklab.attacks.spans.targets import recomputed
from leaklab.models.text.decoders import gradients_of
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LENGTHS = (6, 9, 4, 7, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("loss", ["classes", "next-token"])
def test_a_batch_is_read_in_order_and_proven(sends, family, loss, dtype):
    sent = sends(family, LENGTHS, dtype=dtype, loss=loss)
    found = read(sent.network, sent.update)
    assert set(found.sentences) == sent.sentences
    assert found.proven


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_untied_tables_frozen_embeddings_and_a_factor_change_nothing(sends, family):
    sent = sends(family, LENGTHS, loss="next-token", tied=False)
    update = {name: 0.01 * value for name, value in sent.update.items() if "wte" not in name and "wpe" not in name}
    found = read(sent.network, update)
    assert set(found.sentences) == sent.sentences
    assert found.proven


def test_sentences_that_share_their_beginning_or_begin_another_have_their_own_last_tokens(sends):
    rows = [(10, 11, 12, 13), (10, 11, 12, 14), (10, 11, 15), (20, 21, 22, 23, 24), (10, 11, 12, 13)]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    sent = sends("gpt2", ids, loss="next-token")
    found = read(sent.network, sent.update)
    assert set(found.sentences) == set(rows)


def test_a_planted_false_sentence_is_caught(sends):
    sent = sends("gpt2", LENGTHS, loss="next-token")
    true = dict.fromkeys(sent.sentences, 1)
    assert recomputed(sent.network, true, sent.update) < 1e-9
    (one, *rest) = sent.sentences
    for false in ((*one[:-1], 333), (one[1], one[0], *one[2:]), one[:-1]):
        assert recomputed(sent.network, dict.fromkeys([*rest, false], 1), sent.update) > 1e-3
    assert recomputed(sent.network, true | {(50, 51, 52): 1}, sent.update) > 1e-3
    assert recomputed(sent.network, true | {one: 2}, sent.update) > 1e-3


def test_a_count_that_is_not_the_rank_is_no_certificate():
    tokens = torch.arange(3)
    tree = Prefixes(tokens, tokens - 1, tokens, torch.zeros(3, dtype=torch.float64))
    assert ReadPrefixes(tree, 3, 3, 100.0).proven
    assert not ReadPrefixes(tree, 3, 3, 19.0).proven
    for rank in (2, 4):
        assert not ReadPrefixes(tree, 3, rank, 100.0).proven


def test_a_sentence_that_begins_with_a_repetition_is_read_without_places_too(sends):
    ids = torch.tensor([[7, 7, 7, 9, 12], [20, 21, 22, 22, 22], [31, 31, 40, 41, 42]])
    for family in ("gpt2", "llama"):
        sent = sends(family, ids)
        found = read(sent.network, sent.update)
        assert set(found.sentences) == sent.sentences
        assert found.proven


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_fresh_batches_give_no_false_certificate(sends, family):
    proven = 0
    for seed in range(8):
        lengths = stream(seed, "lengths").integers(3, 10, 2 + seed % 6).tolist()
        sent = sends(family, lengths, seed=seed, dtype=torch.float32, spread=0.1)
        try:
            found = read(sent.network, sent.update)
        except UserError:
            continue
        proven += found.proven
        assert not found.proven or set(found.sentences) == sent.sentences
    assert proven >= 6


def test_noise_is_ranked_and_never_proven(sends):
    sent = sends("gpt2", [8], dtype=torch.float32)
    (true,) = sent.sentences
    draws = stream(5, "noise")
    noisy = {
        name: value + 0.05 * float(value.std()) * draws.normal(*value.shape).float()
        for name, value in sent.update.items()
        if value.numel() > 1
    }
    found = ranked(sent.network, noisy, len(true))
    assert found.sentences == (true,)
    assert not found.proven
    with pytest.raises(UserError, match="noise hides their number"):
        read(sent.network, noisy)
    with pytest.raises(UserError, match="at width 64"):
        ranked(sent.network, noisy, 64)


def test_two_steps_are_not_proven_as_one(sends):
    sent = sends("gpt2", [7, 6], loss="next-token")
    moved = sends("gpt2", sent.ids, loss="next-token").network
    with torch.no_grad():
        for name, value in moved.named_parameters():
            value -= 0.1 * sent.update[name]
    again = gradients_of(moved, sent.ids, None)
    found = read(sent.network, {name: value + again[name] for name, value in sent.update.items()})
    assert not found.proven


def test_an_update_without_what_is_read_is_refused(sends):
    sent = sends("gpt2", [7])
    name = "transformer.h.0.attn.c_attn.weight"
    with pytest.raises(UserError, match=f"lacks '{name}'"):
        read(sent.network, {key: value for key, value in sent.update.items() if key != name})
