"""Words of a card: what they rest on, and that no word is better than its rows."""

import itertools
from math import comb

import pytest

from leaklab.guests.arenas import find
from leaklab.guests.card import SCHEMA, card_of, lines_of
from leaklab.guests.files import Guest
from leaklab.guests.verdict import STATUS, WORDS, word_of, worst
from leaklab.metrics.gains import BAR, gain
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


@pytest.mark.parametrize("exact", [30.0, 150.0])
def test_who_reads_one_update_better_does_not_read_less(exact):
    guesses, scores = [14.0] * 6, [20.0] * 6
    assert gain(scores, guesses).reads
    for better in range(1, 7):
        found = gain([exact] * better + scores[better:], guesses, tried=3)
        assert found.reads
        assert found.low < found.mean < found.high or better == 6


def wrong(low, high, tried):
    """Return how often six gains of two values, whose mean is the bar, are said to lie above it: counted, not drawn."""
    share = (BAR - low) / (high - low)
    said = (gain([high] * read + [low] * (6 - read), [0.0] * 6, tried).reads for read in range(7))
    return sum(comb(6, read) * share**read * (1 - share) ** (6 - read) * own for read, own in enumerate(said))


@pytest.mark.parametrize("tried", [1, 5])
@pytest.mark.parametrize("low", [0.0, 0.5, 1.0, 1.9])
@pytest.mark.parametrize("high", [2.5, 4.0, 10.0, 30.0, 130.0])
def test_of_who_answers_no_worse_than_a_guess_it_is_rarely_said_to_read_too_much(low, high, tried):
    assert wrong(low, high, tried) < 0.025 or high < 3  # with such a small step six equal gains are nothing rare
    assert wrong(low, high, tried) <= ((BAR - low) / (high - low)) ** 6 + 0.025 / tried


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
