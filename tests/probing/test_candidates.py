"""Naming candidates and telling members, where the truth stands in the update and where it does not."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leaklab.probing.candidates import FEWEST, line_up, membership, named
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def case_of(samples: int, number: int = 0, **changes: object) -> Case:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    for name, value in model.named_parameters():
        value.data.copy_(stream(0, "weights", name).normal(*value.shape) / 3)
    inputs, others = stream(number, "own").normal(samples, 8).float(), stream(number, "others").normal(90, 8).float()
    targets, of_others = torch.arange(samples) % 3, torch.arange(90) % 3
    client = Client(model, **changes)
    return Case(client, client.round(inputs, targets), inputs, targets, (others, of_others), number)


def swapped(case: Case) -> Case:
    """Return the case with what was sent of strangers."""
    inputs, targets = (one[: len(case.inputs)] for one in case.public)
    rest = tuple(one[len(inputs) :] for one in case.public)
    return replace(case, exchange=case.client.round(inputs, targets), public=rest)


@pytest.mark.parametrize("changes", [{}, {"sends": "gradient"}, {"steps": 3}, {"optimizer": torch.optim.Adam}])
def test_the_true_candidates_are_named(changes: dict) -> None:
    case = case_of(4, **changes)
    candidates, targets, true = line_up(case, 40)
    found = named(case, candidates, targets, true=true)
    assert torch.equal(candidates[list(true)], case.inputs)
    assert found.hits >= (2 if "optimizer" in changes else 3)
    assert found.p < 0.05
    assert found.by_chance == pytest.approx(4 * 4 / 44)
    if not changes:  # one step of plain descent is the mean of the gradients
        assert set(found.named) == set(true)
        assert sorted(found.ranks) == [1, 2, 3, 4]
        assert found.unexplained < 1e-5
    assert "by chance 0.36" in found.lines()[0]
    json.dumps(found.record())


def test_candidates_are_named_no_better_than_chance_where_none_was_used() -> None:
    found = 0
    for number in range(6):
        case = swapped(case_of(4, number))
        candidates, targets, true = line_up(case, 40)
        found += named(case, candidates, targets, true=true).hits
    assert found <= 6  # by chance 2 of 24


@pytest.mark.parametrize("kind", ["delta", "gradient"])
def test_members_are_told_from_strangers_of_their_class(kind: str) -> None:
    told = membership(case_of(6, sends=kind))
    assert told.same_class
    assert [one.by for one in told.evidence] == ["weight", "cosine", "loss"]
    for one in told.evidence:
        assert one.auc > 0.7
        assert one.low is not None
        assert one.low < one.auc <= one.high
        assert one.p_all < 0.05
    assert "chance: 0.50" in told.lines()[0]
    json.dumps(told.record())


def test_strangers_are_no_members() -> None:
    every = [one for number in range(8) for one in membership(swapped(case_of(6, number))).evidence]
    assert sum(one.auc for one in every) / len(every) == pytest.approx(0.5, abs=0.12)
    assert sum(one.p_all < 0.05 for one in every) <= 3


def test_the_p_value_of_one_member_is_its_place_among_the_strangers() -> None:
    case = case_of(1)
    one = membership(case).evidence[0]
    assert one.p == (1 / 31,)  # 30 strangers of its class, none of them as near
    assert one.p_all == pytest.approx(1 / 31, abs=0.02)
    assert one.low is None


def test_targets_that_are_numbers_have_strangers_of_any_kind() -> None:
    case = case_of(2)
    client = Client(nn.Linear(8, 1), loss=lambda output, targets: F.mse_loss(output[:, 0], targets))
    targets, of_others = torch.tensor([3.0, -3.0]), stream(0, "targets").normal(90).float()
    case = Case(client, client.round(case.inputs, targets), case.inputs, targets, (case.public[0], of_others))
    assert not membership(case).same_class


def test_what_cannot_be_told_is_one_line() -> None:
    case = case_of(1)
    with pytest.raises(UserError, match="give the case inputs, targets and public"):
        membership(replace(case, public=None))
    with pytest.raises(UserError, match="no public sample is of class 0"):
        membership(replace(case, public=(case.public[0][1:2], case.public[1][1:2])))
    with pytest.raises(UserError, match="naming needs candidates"):
        named(case, case.inputs[:0], case.targets[:0])


def test_where_time_is_short_there_are_fewer_strangers():
    case = case_of(6)
    assert membership(case, seconds=0.0).strangers == pytest.approx(FEWEST)
    assert membership(case, seconds=1e6).strangers == pytest.approx(membership(case).strangers)
