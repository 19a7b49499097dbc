"""What would stop an attack, for attacks whose limits are known, and for one that inverts the update of a layer."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.stopping import KNOBS, stopping
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def case_of(samples: int = 2, public: int = 60) -> Case:
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    inputs, targets = stream(0, "own").normal(samples, 8).float(), torch.arange(samples) % 3
    others = stream(0, "others").normal(public, 8).float(), torch.arange(public) % 3
    client = Client(model, sends="gradient")
    return Case(client, client.round(inputs, targets), inputs, targets, others)


def up_to(samples: int = 999, steps: int = 999):
    return lambda case: float(len(case.inputs) <= samples and case.client.steps <= steps)


@pytest.mark.parametrize("most", [1, 2, 13, 40, 61])
def test_the_largest_batch_that_is_read_is_found_and_both_ends_were_tried(most: int) -> None:
    (found,) = stopping(case_of(1), up_to(most), knobs=["batch size"]).limits
    assert (found.reads, found.fails) == (most, None if most == 61 else most + 1)
    shares = dict(found.tried)
    assert shares[most] == 1
    assert most == 61 or shares[most + 1] == 0
    assert len(found.tried) < 15


def test_batches_are_filled_with_public_samples_that_are_public_no_more() -> None:
    seen = []

    def reads(case: Case) -> float:
        seen.append(case)
        return 1.0

    case = case_of(2)
    stopping(case, reads, knobs=["batch size"])
    large = next(one for one in seen if len(one.inputs) == 32)
    assert torch.equal(large.inputs[:2], case.inputs)
    assert not (large.public[0][:, None] == large.inputs[None]).all(2).any()
    assert len(large.public[0]) == 30
    expected = large.client.round(large.inputs, large.targets)
    assert all(torch.equal(one, expected.sent[name]) for name, one in large.exchange.sent.items())


def test_steps_are_counted_and_sent_as_a_difference() -> None:
    (found,) = stopping(case_of(), up_to(steps=5), knobs=["local steps"]).limits
    assert (found.reads, found.fails) == (5, 6)


def test_noise_is_found_to_a_quarter_in_units_of_what_is_sent() -> None:
    case = case_of()
    plain = torch.cat([one.flatten() for one in case.exchange.sent.values()])

    def reads(noisy: Case) -> float:
        away = torch.cat([one.flatten() for one in noisy.exchange.sent.values()]) - plain
        return float(away.std() < 0.3 * plain.square().mean().sqrt())

    (found,) = stopping(case, reads, knobs=["noise"]).limits
    assert found.reads < 0.3 * 1.2
    assert found.fails > 0.3 / 1.2
    assert found.fails / found.reads < 1.26
    assert found.unit == pytest.approx(float(plain.square().mean().sqrt()))
    assert "root mean square" in found.line()


def test_the_tensors_that_an_attack_needs_are_named() -> None:
    found = stopping(case_of(), lambda case: float("0.bias" in case.exchange.sent), knobs=["tensors left out"])
    assert [names for names, share in found.left_out.groups if share == 0] == [("0.weight", "0.bias")]
    assert "without 0.weight, 0.bias less than half" in found.lines()[0]


def test_tensors_are_left_out_together_where_none_is_needed_alone() -> None:
    case, deep = case_of(), nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))
    client = replace(case.client, model=deep)
    case = replace(case, client=client, exchange=client.round(case.inputs, case.targets))
    found = stopping(case, lambda own: float(len(own.exchange.sent) > 4), knobs=["tensors left out"]).left_out
    assert len(found.groups) == 6
    assert (found.front.reads, found.front.fails) == (3, 4)
    assert "without the first 3 of them, not without 4" in found.lines()[0]


def test_an_attack_that_does_not_work_has_nothing_to_be_stopped() -> None:
    found = stopping(case_of(), lambda case: 0.4)
    assert found.limits == ()
    assert found.lines() == ("Nothing has to stop the attack: of the client as it is it reads 40 %.",)


def test_a_refusal_counts_as_nothing_read() -> None:
    def reads(case: Case) -> float:
        if len(case.inputs) > 4:
            raise UserError("too many")
        return 1.0

    assert stopping(case_of(), reads, knobs=["batch size"]).limits[0].reads == 4


def test_what_was_found_stands_when_time_is_over() -> None:
    ticks = iter(range(1000))
    found = stopping(case_of(), up_to(13), 12.0, clock=lambda: float(next(ticks)))
    assert not all(one.complete for one in found.limits)
    assert any("The budget ended" in line for line in found.lines())
    assert json.loads(json.dumps(found.record()))["limits"][0]["knob"] == KNOBS[0]
    none = stopping(case_of(), up_to(13), 0.0, knobs=["noise"])
    assert none.lines() == ("noise: nothing was tried; the budget was used up before.",)


def test_nothing_is_begun_that_would_end_after_the_budget() -> None:
    now = [0.0]

    def slow(case: Case) -> float:
        now[0] += 3.0
        return 1.0

    found = stopping(case_of(), slow, 20.0, clock=lambda: now[0])
    assert now[0] == 18.0
    assert sum(len(one.tried) for one in found.limits) + len(found.left_out.groups) == 5  # one more was the case itself


def test_what_cannot_be_tried_is_one_line() -> None:
    with pytest.raises(UserError, match="no knob 'speed'"):
        stopping(case_of(), up_to(), knobs=["speed"])
    with pytest.raises(UserError, match="give the case inputs"):
        stopping(replace(case_of(), inputs=None), up_to())
