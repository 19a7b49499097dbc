"""LoRA: ranks, the first step, sparse reading, and what it cannot do."""

import pytest
import torch

from leaklab.attacks.spans.adapted import read_adapted
from leaklab.attacks.spans.prefixes import Prefixes
from leaklab.attacks.spans.reading import read
from leaklab.attacks.spans.span import Candidates, NotToldError, Span, span_of
from leaklab.attacks.spans.sparse import Pursuit, SparsePrefixes, weighed
from leaklab.models.text.decoders import Gpt2, gradients_of
from leaklab.models.text.first_block import first_block
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRAINED = {"loss": "next-token", "lora": "trained"}


def without_last(sent):
    return {one[:-1] for one in sent.sentences}


@pytest.mark.parametrize(("rank", "lengths"), [(4, (4,)), (4, (6, 6)), (8, (9, 8)), (8, (12, 14))])
def test_rows_of_lora_have_at_most_twice_its_rank(sends, rank, lengths):
    sent = sends("gpt2", lengths, rank=rank, **TRAINED)
    for block in ("h.0.", "h.1."):
        rows = torch.cat([value for name, value in sent.update.items() if ".A_" in name and block in name])
        assert len(rows) == 2 * rank
        assert span_of(rows.T, 1e-15).rank == min(2 * rank, len(sent.prefixes))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize(("lengths", "way"), [((6, 7), "rank"), ((12, 10, 9), "sparse")])
def test_trained_lora_is_read_beyond_its_rank(sends, family, lengths, way):
    sent = sends(family, lengths, rank=8, dtype=torch.float32, **TRAINED)
    found = read(sent.network, sent.update)
    assert found.way == way
    assert set(found.sentences) == without_last(sent)
    assert found.proven


def test_the_first_step_shows_one_token_less_than_the_rank(sends):
    sent = sends("gpt2", [8], rank=8, loss="next-token")
    assert not any(value.any() for name, value in sent.update.items() if ".A_" in name)
    found = read(sent.network, sent.update)
    assert (set(found.sentences), found.way, found.proven) == (without_last(sent), "first step", True)
    more = sends("gpt2", [9], rank=8, loss="next-token")
    with pytest.raises(UserError, match="the tokens reach the width 8 of the space that shows them"):
        read(more.network, more.update)


def test_too_many_tokens_are_refused(sends):
    sent = sends("gpt2", [16] * 6, rank=4, **TRAINED)
    with pytest.raises(UserError, match="no tokens explain the update"):
        read(sent.network, sent.update)


def test_weights_part_true_inputs_from_false_ones():
    draws = stream(1, "inputs")
    inputs = draws.normal(12, 40)
    measured = span_of((draws.normal(5, 9) @ inputs[:9]).T, 1e-15)
    kept, gap = weighed(measured, inputs)
    assert kept.tolist() == [True] * 9 + [False] * 3
    assert gap > 1e6
    for chosen, explained in ((inputs[:9], True), (inputs, True), (inputs[1:], False), (inputs[:8], False)):
        pursuit = Pursuit.start(measured)
        for one in chosen:
            assert not pursuit.explained or chosen is inputs
            pursuit = pursuit.with_input(one)
        assert pursuit.explained == explained


def test_a_matrix_without_its_twin_and_an_encoder_are_refused(sends):
    sent = sends("gpt2", [6], rank=4, **TRAINED)
    with pytest.raises(UserError, match="LoRA's A_q came without its twin"):
        read_adapted(sent.block, {name: value for name, value in sent.update.items() if not name.endswith("B_q")})
    encoder = sends("bert", [6])
    with pytest.raises(UserError, match="LoRA of an encoder"):
        read_adapted(encoder.block, sent.update)
    with pytest.raises(UserError, match="no LoRA of block 1"):
        read_adapted(sent.block, {name: value for name, value in sent.update.items() if "h.0." in name})


def sparse(prefixes, rank, gap=1e3, full=True, width=64):
    """Return prefixes that explain a measured space of so many dimensions."""
    both = torch.eye(width, dtype=torch.float64)
    span = Span(both[:, :rank], both[:, rank:], gap=gap, rounding=1e-7, behind=1e-7)
    return SparsePrefixes(tree(prefixes), explained=True, gap=1e3, span=span, full=full)


def test_many_prefixes_that_explain_a_rounded_update_are_no_certificate():
    """Chosen greedily, as many as half the width explain anything: seen where differences of weights were rounded."""
    assert sparse(32, rank=16).proven
    assert not sparse(33, rank=16).proven


def test_a_small_gap_or_more_prefixes_than_were_measured_are_no_certificate():
    assert not sparse(20, rank=16, gap=10).proven
    assert sparse(16, rank=16, full=False).proven
    assert not sparse(20, rank=16, full=False).proven


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("rank", "state", "steps", "rate"),
    [(64, "first-step", 2, 1.0), (16, "trained", 4, 0.1), (8, "first-step", 4, 0.001)],
)
def test_several_steps_give_no_false_certificate(sends, rank, state, steps, rate, seed):
    """Differences between the steps leave a small gap, and a tolerance in which false prefixes explain the update."""
    settings = {"rank": rank, "lora": state, "loss": "next-token", "width": 128}
    sent = sends("gpt2", [7, 6, 5, 9], seed, torch.float32, **settings)
    trained = {name: value for name, value in sent.network.named_parameters() if name in sent.update}
    before = {name: value.detach().clone() for name, value in trained.items()}
    for _ in range(steps):
        gradients = gradients_of(sent.network, sent.ids, None)
        with torch.no_grad():
            for name, value in trained.items():
                value.sub_(rate * gradients[name])
    update = {name: before[name] - value.detach() for name, value in trained.items()}
    with torch.no_grad():
        for name, value in trained.items():
            value.copy_(before[name])
    try:
        found = read_adapted(first_block(sent.network), update)
    except NotToldError:
        return
    read = {found.prefixes.sentence(leaf) for leaf in found.prefixes.leaves()}
    assert not found.proven or read <= sent.prefixes


def tree(count):
    numbers = torch.arange(count)
    return Prefixes(numbers, numbers - 1, numbers, torch.zeros(count, dtype=torch.float64))


def test_a_tolerance_that_lets_most_words_in_tells_nothing():
    block = first_block(Gpt2(width=16, heads=2, positions=64).initialised(200, 2, 0))
    span = span_of(torch.eye(16, 4, dtype=torch.float64), 1e-15)
    with pytest.raises(NotToldError, match="more than 1024 tokens and places fit the update within 1"):
        Candidates(block).accepted(span, tolerance=1.0)
