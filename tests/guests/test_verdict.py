"""Words of a card: what they rest on, and that no word is better than its rows."""

import itertools

import pytest

from leaklab.guests.arenas import find
from leaklab.guests.card import SCHEMA, card_of, lines_of
from leaklab.guests.files import Guest
from leaklab.guests.verdict import BAR, STATUS, WORDS, gain, word_of, worst
from leaklab.records.streams import stream

GUESSES = [12.0, 13.0, 14.0, 12.5, 13.5, 11.0]
SPREAD = [-0.3, 0.2, 0.1, -0.1, 0.3, -0.2]


def row(attacker, above, by="somebody", spread=SPREAD):
    scores = [guess + above + own for guess, own in zip(GUESSES, spread, strict=True)]
    return {"network": "mlp", "attacker": attacker, "by": by, "scores": scores, "labels": 6, "seconds": 1.0}


def word(*rows, complete=True, updates=6):
    cut = [{**one, "scores": one["scores"][:updates]} for one in rows]
    return word_of(cut, GUESSES[:updates], complete=complete)


PREMISE = row("undefended", 30)


@pytest.mark.parametrize("kind", ["unaware", "rule", "learnt"])
def test_one_attacker_who_reads_is_enough(kind):
    others = [row(other, -3) for other in ("unaware", "rule", "learnt") if other != kind]
    assert word(PREMISE, row(kind, 10), *others) == "read"


def test_stood_needs_all_attackers_below_the_bar_and_all_of_them_there():
    rows = [PREMISE, row("unaware", -3), row("rule", 0), row("learnt", 0.5)]
    assert word(*rows) == "stood"
    assert word(*rows, complete=False) == "undecided"
    assert word(*rows, row("rule", BAR)) == "undecided"
    assert word(PREMISE) == "undecided"


def test_noise_and_guesses_are_no_attackers():
    assert word(PREMISE, row("learnt", 0), row("noise", 20)) == "stood"


def test_without_a_premise_nothing_is_said_of_the_defense():
    assert word(row("undefended", 1), row("learnt", 0)) == "no premise"
    assert word(row("undefended", 1), row("learnt", 20)) == "no premise"


@pytest.mark.parametrize("updates", [2, 5])
@pytest.mark.parametrize("above", [-5, 30])
def test_fewer_than_six_updates_decide_nothing(updates, above):
    assert word(PREMISE, row("learnt", above), updates=updates) == "undecided"


def test_the_worst_network_counts():
    for words in itertools.permutations(WORDS[1:]):
        assert worst(words) == "read"
        assert worst(["invalid", *words]) == "invalid"
    assert worst(["stood", "no premise"]) == "no premise"
    assert STATUS == {"stood": 0, "invalid": 1, "read": 3, "undecided": 4, "no premise": 5}


def test_an_interval_holds_the_mean_as_often_as_it_says_and_a_shared_error_is_smaller():
    draws, held, shared = stream(0, "gains"), 0, 0
    for _ in range(4000):
        scores = (3 * draws.normal(6)).tolist()
        one, many = gain(scores, [0.0] * 6), gain(scores, [0.0] * 6, tried=5)
        held += one.low <= 0 <= one.high
        shared += many.low <= 0 <= many.high
        assert many.low < one.low < one.mean < one.high < many.high
    assert held / 4000 == pytest.approx(0.95, abs=0.012)
    assert shared / 4000 == pytest.approx(0.99, abs=0.006)


def test_a_card_says_who_was_tried_and_never_safe(tmp_path):
    guest = Guest(tmp_path / "mine.py", "Mine", "defense", "class", 3, "0" * 64)
    guesses = {"network": "mlp", "attacker": "guess", "by": "mean images", "scores": GUESSES, "labels": None}
    rows = [guesses, PREMISE, row("unaware", -3, "annealed-map"), row("learnt", 0, "linear law")]
    answers = {"mlp": {"changes": 0.1}}
    card = card_of(guest, find("tiny"), 0, [], rows, answers)
    assert (card["schema"], card["verdict"]) == (SCHEMA, "stood")
    lines = list(lines_of(card))
    assert "unaware: annealed-map, learnt: linear law" in lines[-1]
    assert not any(bad in line.lower() for line in lines for bad in ("safe", "private", "secure"))
    # the intervals that are shown are those that decide
    shown = card["arenas"]["tiny"]["mlp"]["rows"][1]
    assert shown["high"] == gain(rows[2]["scores"], GUESSES, tried=2).high
    cut = card_of(guest, find("tiny"), 0, [], rows, {"mlp": None})
    assert cut["verdict"] == "undecided"
    assert "larger --budget" in list(lines_of(cut))[-1]
    failing = [*rows, {"network": "mlp", "attacker": "rule", "by": "x", "failed": "no", "seconds": 1.0}]
    assert card_of(guest, find("tiny"), 0, [], failing, answers)["verdict"] == "undecided"
