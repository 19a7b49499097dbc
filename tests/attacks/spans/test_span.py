"""The span of the inputs: identities, the closed form of all candidates, and ranks that are one off."""

import pytest
import torch
from torch.testing import assert_close

from leaklab.attacks.spans.prefixes import read_prefixes
from leaklab.attacks.spans.span import SMALLEST_GAP, Candidates, refuse, span_of
from leaklab.models.text.first_block import sentence_inputs
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LENGTHS = (6, 5, 7)


def spans(sent, rounding=1e-15):
    return span_of(sent.columns("attention"), rounding), span_of(sent.columns("mlp"), rounding)


def components(pairs):
    """Return how many connected parts the graph of tokens and places has."""
    parts = []
    for token, place in pairs:
        own = {("v", token), ("p", place)}
        parts = [part for part in parts if not part & own] + [own.union(*(part for part in parts if part & own))]
    return len(parts)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_the_inputs_lie_in_the_span_of_the_gradient(sends, family):
    sent = sends(family, LENGTHS)
    first, second = spans(sent)
    for row in sent.sentences:
        tokens = torch.tensor(row)
        assert float(first.distances(sent.block.inputs(tokens, torch.arange(len(row)))).max()) < 1e-9
        assert float(second.distances(sentence_inputs(sent.block, tokens)[0]).max()) < 1e-9
    strange = torch.full((1,), 399)
    assert 399 not in {token for row in sent.sentences for token in row}
    assert float(first.distances(sent.block.inputs(strange, strange * 0))) > 0.1


@pytest.mark.parametrize("words", [30, 12, 8])
def test_the_rank_of_additive_places(sends, words):
    ids = stream(words, "words").integers(4, words, 3, 6)
    sent = sends("gpt2", ids)
    pairs = {(token, place) for row in ids.tolist() for place, token in enumerate(row)}
    types, places = len({token for token, _ in pairs}), len({place for _, place in pairs})
    assert spans(sent)[0].rank == types + places - components(pairs)
    assert spans(sent)[1].rank == len(sent.prefixes)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_the_closed_form_is_that_of_inputs_which_are_built(sends, family):
    sent = sends(family, LENGTHS)
    with torch.no_grad():  # a shift, which new networks lack
        shift = stream(1, "shift").normal(64)
        (sent.block.first.bias if sent.block.first.centred else torch.zeros(64)).add_(0.3 * shift)
    candidates = Candidates(sent.block)
    directions = stream(2, "directions").normal(64, 5)
    sizes, squares = candidates.tables(slice(None))
    energies = candidates.squares_of(*candidates.parts(directions), sizes)
    for token, place in ((5, 0), (17, len(candidates) - 1), (399, len(candidates) // 2)):
        built = sent.block.inputs(torch.tensor([token]), torch.tensor([place]))[0]
        assert_close(squares[token, place], built.square().sum(), rtol=1e-9, atol=0)
        assert_close(energies[token, place], (built @ directions).square().sum(), rtol=1e-9, atol=1e-12)


def test_accepted_are_all_tokens_of_a_component_at_all_its_places(sends):
    sent = sends("gpt2", torch.tensor([[5, 6, 7], [6, 5, 9], [7, 20, 5]]))
    found = Candidates(sent.block).accepted(spans(sent)[0])
    pairs = set(zip(found.tokens.tolist(), found.places.tolist(), strict=True))
    # one component: tokens join the places at which they stand
    assert pairs == {(token, place) for token in (5, 6, 7, 9, 20) for place in range(3)}


def test_a_rank_one_too_high_or_too_low_is_no_certificate(sends):
    sent = sends("gpt2", LENGTHS, dtype=torch.float32)
    first, second = spans(sent, 1e-7)
    accepted = Candidates(sent.block).accepted(first)
    right = read_prefixes(sent.block, accepted, second)
    assert right.proven
    for rank in (second.rank - 1, second.rank + 1):
        wrong = read_prefixes(sent.block, accepted, second.of_rank(rank))
        assert not wrong.proven
    low = Candidates(sent.block).accepted(first.of_rank(first.rank - 1))
    assert not read_prefixes(sent.block, low, second).proven


def test_tokens_that_reach_the_width_are_refused_in_one_line(sends):
    sent = sends("gpt2", [15] * 6)
    first, _ = spans(sent)
    assert not first.told
    with pytest.raises(UserError, match="the tokens reach the width 64 of the space") as refused:
        refuse(first, "tokens")
    assert "\n" not in str(refused.value)


def test_noise_leaves_no_gap_and_broken_gradients_are_refused():
    noise = stream(3, "noise").normal(40, 120)
    assert span_of(noise, 1e-7).gap < SMALLEST_GAP
    with pytest.raises(UserError, match="not finite"):
        span_of(noise.clone().fill_(torch.inf), 1e-7)
    with pytest.raises(UserError, match="is zero"):
        span_of(torch.zeros(4, 6), 1e-7)


@pytest.mark.parametrize("factor", [1e-4, 123.0])
def test_a_factor_changes_nothing(sends, factor):
    sent = sends("llama", LENGTHS)
    plain, other = (span_of(f * sent.columns("mlp"), 1e-15) for f in (1.0, factor))
    assert plain.rank == other.rank == len(sent.prefixes)
    assert float((plain.normal.T @ other.basis).abs().max()) < 1e-8


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_no_tokens_at_all_are_no_error(sends, family):
    block = sends(family, [5]).block
    none = torch.zeros(0, dtype=torch.int64)
    for part in block.attention(none, none):
        assert len(part) == 0
    assert block.inputs(none, none).shape == (0, block.width)
