"""LoRA: ranks, the first step, sparse reading, and what it cannot do."""

import pytest
import torch

from leaklab.attacks.spans.adapted import read_adapted
from leaklab.attacks.spans.moved import midway
from leaklab.attacks.spans.prefixes import Prefixes
from leaklab.attacks.spans.reading import read
from leaklab.attacks.spans.span import PROVING_GAP, ROUNDING, Candidates, NotToldError, span_of
from leaklab.attacks.spans.sparse import Pursuit, SparsePrefixes, in_roundings, weighed
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


def test_parts_tell_true_inputs_from_false_ones():
    draws = stream(1, "inputs")
    inputs = draws.normal(12, 40)
    measured = in_roundings((draws.normal(5, 9) @ inputs[:9]).T, 1e-15)
    kept, gap = weighed(measured, inputs)
    assert kept.tolist() == [True] * 9 + [False] * 3
    assert gap > 1e6
    for chosen, explained in ((inputs[:9], True), (inputs, True), (inputs[1:], False), (inputs[:8], False)):
        pursuit = Pursuit.start(measured)
        for one in chosen:
            assert not pursuit.explained or chosen is inputs
            pursuit = pursuit.with_input(one)
        assert pursuit.explained == explained


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3])
def test_what_rounding_leaves_of_a_difference_of_weights_is_of_the_order_of_one(size):
    """A difference is rounded as its weights are, however small it is; a gradient as itself."""
    draws = stream(2, "inputs")
    inputs, weights = draws.normal(9, 40), size * draws.normal(5, 40)
    true = draws.normal(5, 9) @ inputs
    sent = (weights - (weights.float() - true.float()).double()) if size else true.float().double()
    least = weights.norm(dim=1) if size else None
    pursuit = Pursuit.start(in_roundings(sent.T, ROUNDING[torch.float32], least))
    assert pursuit.rest > 1e3 / max(size, 1.0)
    for one in inputs:
        pursuit = pursuit.with_input(one)
    assert 0.03 < pursuit.rest < 1


def test_a_part_of_a_size_is_what_makes_a_certificate():
    """A prefix that another one could do for, or that rounding could, is none; nor are as many as half the width."""
    draws = stream(3, "inputs")
    inputs = draws.normal(12, 40)
    measured = in_roundings((draws.normal(5, 9) @ inputs[:9]).T, 1e-15)
    blurred = measured / measured.norm() * 100 + draws.normal(40, 5) / 40**0.5
    assert weighed(measured, inputs[:9])[1] > PROVING_GAP
    assert weighed(blurred, inputs[:9])[1] < PROVING_GAP
    assert weighed(measured, torch.cat([inputs[:8], inputs[9:10]]))[1] < PROVING_GAP
    for count, gap, proven in ((32, 21.0, True), (33, 21.0, False), (32, 19.0, False)):
        found = SparsePrefixes(tree(count), explained=True, gap=gap, share=1.0, width=64)
        assert found.proven == proven


def test_a_matrix_without_its_twin_and_an_encoder_are_refused(sends):
    sent = sends("gpt2", [6], rank=4, **TRAINED)
    with pytest.raises(UserError, match="LoRA's A_q came without its twin"):
        read_adapted(sent.block, {name: value for name, value in sent.update.items() if not name.endswith("B_q")})
    encoder = sends("bert", [6])
    with pytest.raises(UserError, match="LoRA of an encoder"):
        read_adapted(encoder.block, sent.update)
    with pytest.raises(UserError, match="no LoRA of block 1"):
        read_adapted(sent.block, {name: value for name, value in sent.update.items() if "h.0." in name})


def steps_of(sent, steps, rate):
    """Return the difference of the weights after so many steps on one batch."""
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
    return update


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("rank", "state", "steps", "rate"),
    [(64, "first-step", 2, 1.0), (16, "first-step", 2, 0.3), (16, "trained", 4, 0.1), (8, "first-step", 4, 0.001)],
)
def test_several_steps_give_no_false_certificate(sends, rank, state, steps, rate, seed):
    """The inputs move between the steps, and a small difference is mostly what rounding made of it."""
    settings = {"rank": rank, "lora": state, "loss": "next-token", "width": 128}
    sent = sends("gpt2", [7, 6, 5, 9], seed, torch.float32, **settings)
    update = steps_of(sent, steps, rate)
    try:
        found = read(midway(sent.network, update, 1.0, steps), update, change=1.0)
    except NotToldError:
        return
    assert not found.proven or set(found.sentences) <= without_last(sent)


@pytest.mark.parametrize(("state", "rate"), [("first-step", 0.03), ("trained", 0.01)])
@pytest.mark.parametrize("steps", [2, 4])
def test_several_steps_are_read_at_the_weights_between_them(sends, state, rate, steps):
    sent = sends("gpt2", [7, 6, 5, 9], 0, torch.float32, rank=16, lora=state, loss="next-token", width=128)
    update = steps_of(sent, steps, rate)
    found = read(midway(sent.network, update, 1.0, steps), update, change=1.0)
    assert set(found.sentences) == without_last(sent)


def tree(count):
    numbers = torch.arange(count)
    return Prefixes(numbers, numbers - 1, numbers, torch.zeros(count, dtype=torch.float64))


def test_a_tolerance_that_lets_most_words_in_tells_nothing():
    block = first_block(Gpt2(width=16, heads=2, positions=64).initialised(200, 2, 0))
    span = span_of(torch.eye(16, 4, dtype=torch.float64), 1e-15)
    with pytest.raises(NotToldError, match="more than 1024 tokens and places fit the update within 1"):
        Candidates(block).accepted(span, tolerance=1.0)
