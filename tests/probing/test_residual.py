"""Residual networks in a probe: what layers saw is proven, the sample is read, and what does not apply yields."""

from dataclasses import replace

import pytest
import torch
from probe_searches.cases import Workload, case_of
from probe_searches.models import mlp, residual
from torch import nn

from leaklab.probing.searches import residual as peel
from leaklab.probing.searches.search import searches
from leaklab.probing.yardstick import graded


class Wide(nn.Module):
    """A block with a shortcut of its own, wide enough that its gradient tells what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 48, 3, 2, 1, bias=False), nn.Conv2d(48, 48, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(16, 48, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(48) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        return torch.relu(inner + self.norms[2](self.short(x)))


def deep() -> nn.Module:
    stem = nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    network = nn.Sequential(*stem, Wide(), nn.AvgPool2d(1), nn.Flatten(), nn.Linear(1728, 10))
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.bias, std=0.2)
    return network


def dark() -> nn.Module:
    """As initialised: nothing is on where a picture is black, and nothing is told of what is seen there."""
    network = deep()
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.zeros_(layer.bias)
    return network


def case(build=deep, **changes):
    return case_of(Workload("it", build, {"mode": "eval", **changes}, side=12))


def found_of(one, **settings):
    return searches(one, 60.0, only=[peel.NAME], **settings)


@pytest.mark.parametrize("changes", [{}, {"sends": "gradient"}, {"prepare": lambda x: (x - 0.3) / 0.4}])
def test_what_layers_saw_is_proven_and_the_sample_is_read(changes):
    one = case(**changes)
    found = found_of(one)
    grades = graded(one, found.readings)
    assert grades.false == 0
    assert {own.layer: own.exact for own in grades.layers} == {"3.second": 1, "3.first": 1, "3.short": 1}
    assert "What 3 layers saw is proven by 'residual-peel', from 3.second down to" in found.lines()[0]
    assert grades.attackers[0].by == peel.NAME
    assert grades.attackers[0].scores[0] > 60
    assert grades.attackers[0].proven == 1


def test_where_nothing_is_told_of_black_parts_the_sample_is_read_all_the_same():
    one = case(dark)
    found = found_of(one)
    grades = graded(one, found.readings)
    assert grades.false == 0
    assert [own.layer for own in grades.layers] == ["3.second"]
    assert grades.attackers[0].scores[0] > 60


def test_nothing_but_the_form_of_the_private_sample_is_used():
    one = case()
    blind = replace(one, inputs=one.inputs.flip(-1), targets=torch.zeros_like(one.targets))
    mine, others = found_of(one), found_of(blind)
    assert len(mine.readings) == 4
    # the client is rehearsed on noise of their range, which moves the last digits of its rate
    assert all(
        torch.allclose(a.values, b.values, atol=1e-5) for a, b in zip(mine.readings, others.readings, strict=True)
    )
    assert [a.proven for a in mine.readings] == [b.proven for b in others.readings]


@pytest.mark.parametrize(
    ("changes", "build"),
    [({"steps": 2}, deep), ({"mode": "train"}, residual), ({"precision": torch.bfloat16}, deep), ({}, mlp)],
    ids=["steps", "train", "bfloat16", "mlp"],
)
def test_what_does_not_apply_is_left_to_others_without_a_word(changes, build):
    side = 28 if build is mlp else 12
    one = case_of(Workload("it", build if side == 28 else deep, {"mode": "eval", **changes}, side=side))
    assert not peel.fits(one)
    found = found_of(one)
    assert not found.readings
    assert not found.untried


def test_where_it_stops_at_the_head_it_says_why_and_others_try():
    one = case_of(Workload("it", lambda: residual(averaged=True), {"mode": "eval"}))
    found = searches(one, 60.0, evaluations=2, only=[peel.NAME, "dlg"])
    assert [own.by for own in found.tried] == ["dlg"]
    assert found.untried[0][0] == peel.NAME
    assert "14x14 places apart" in found.untried[0][1]


def test_another_state_of_the_model_proves_nothing_false():
    one = case()
    with torch.random.fork_rng():
        torch.manual_seed(5)
        other = replace(one.client, model=deep())
    moved = replace(one, exchange=replace(one.exchange, before=dict(other.model.state_dict())))
    found = found_of(moved)
    assert not any(own.proven for own in found.readings)


def test_noise_on_what_is_sent_proves_nothing_false():
    one = case(sends="gradient")
    draws = torch.Generator().manual_seed(0)
    noisy = {
        name: own if name.startswith("6.") else own + 1e-4 * own.std() * torch.randn(own.shape, generator=draws)
        for name, own in one.exchange.sent.items()
    }
    found = found_of(replace(one, exchange=replace(one.exchange, sent=noisy)))
    assert graded(one, found.readings).false == 0 if found.readings else True
    assert not any(own.proven for own in found.readings)
