"""The replay's benchmark: what it plants is what it says, and its page counts what the table holds."""

import pandas as pd
import pytest
import torch
from replay.__main__ import measured, planted_row
from replay.networks import NETWORKS, made
from replay.page import page
from replay.planted import UNNAMED, case_of, every
from replay.right import right_case


def test_at_least_forty_kinds_have_titles_of_their_own_and_fit_a_network():
    titles = [kind.title for _, kind in every()]
    assert len(titles) == len(set(titles)) >= 40
    assert all(any(kind.fits(name) for name in NETWORKS) for _, kind in every())
    assert all(bool(kind.names) != (kind in UNNAMED) for _, kind in every())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_same_again(name):
    one, other = made(name, 3), made(name, 3)
    assert all(torch.equal(a, b) for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True))
    assert torch.equal(one[1], other[1])


def test_every_kind_can_be_planted_and_changes_what_is_sent():
    for place, (_, kind) in enumerate(every()):
        name = next(name for name in NETWORKS if kind.fits(name))
        case, _ = case_of(kind, name, kind.steps[-1], place)
        got = case.client.round(case.inputs, case.targets).sent
        assert any(not torch.equal(got[key], case.exchange.sent[key]) for key in got), kind.title


def test_a_planted_row_is_judged_by_name_and_number():
    places = {kind.title: (place, kind) for place, (_, kind) in enumerate(every())}
    place, kind = places["label smoothing"]
    row = planted_row("alone", kind, "MLP", 1, place)
    assert (row["outcome"], row["first"]) == ("named", True)
    assert right_case(4)[1]["network"] == "transformer"
    assert list(measured(0, 0, "", set())) == []


def test_the_page_counts_what_was_named_and_lists_what_was_not():
    common = {"group": "alone", "planted": "a", "network": "MLP", "steps": 1, "said": "x", "seconds": 1.0, "error": 0.1}
    rows = [
        {**common, "outcome": "named", "first": True},
        {**common, "outcome": "named", "first": False, "seconds": 3.0},
        {**common, "outcome": "wrong", "first": False, "said": "another thing"},
        {**common, "group": "without a name", "planted": "b", "outcome": "not explained", "first": False},
        {**common, "group": "right", "planted": "right", "outcome": "right", "rounding": "the same", "error": 0.0},
    ]
    text = page(pd.DataFrame(rows))
    assert "| a | 3 | 2 | 1 | 1 | 0 | 1.0 | 3.0 |" in text
    assert "| b | 1 | - | - | 0 | 1 | 1.0 | 1.0 |" in text
    assert "* **a**, MLP, 1 steps: wrong; said: another thing." in text
    assert "| the same | 1 | 0 | 0 | 0 | 1.0 |" in text
