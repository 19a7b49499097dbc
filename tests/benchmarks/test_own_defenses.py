"""The page of unnamed defenses says what was read."""

import pytest
from own_defenses.named import TRANSFORMS, named
from own_defenses.page import behind, page, word
from own_defenses.sources import HOUSE, SOURCES

GUESSES = [10.0] * 6


def row(kind, *scores):
    return {"attacker": kind, "by": kind, "scores": list(scores), "labels": 6}


def readings(*rows):
    return {"guesses": GUESSES, "facts": [], "rows": [row("undefended", *[40.0] * 6), *rows], "seconds": 7.0}


LEARNT = row("learnt", 30, 31, 29, 30, 31, 29)


@pytest.mark.parametrize(("ahead", "said"), [(3.0, "more than 1 dB behind"), (0.5, "none is more than 1 dB behind")])
def test_behind_is_the_median_against_the_better_of_the_two(ahead, said):
    told = row("named", *(value + ahead for value in LEARNT["scores"][:5]), 99)
    one = readings(row("rule", *[12.0] * 6), LEARNT, told)
    assert behind(one) == pytest.approx(ahead)
    assert word(one) == "read"
    shown = page({("outpost:Outpost", "mlp"): one})
    assert said in shown


def test_the_named_attacker_decides_no_word():
    one = readings(row("unaware", *[5.0] * 6), row("learnt", *[5.0] * 6), row("named", *[40.0] * 6))
    assert word(one) == "stood"


def test_who_reads_nothing_is_named_in_the_words():
    quiet = readings(row("unaware", *[5.0] * 6), row("learnt", *[5.0] * 6))
    assert "*stood* 1 (sign on the lenet)" in page({("sign", "lenet"): quiet, ("clip", "mlp"): readings(LEARNT)})


def test_every_defense_of_the_house_has_attackers_who_know_it():
    assert set(TRANSFORMS) == set(HOUSE) <= set(SOURCES)
    assert all(list(named(name, None)) for name in TRANSFORMS)


def test_a_page_of_some_says_how_many_are_missing():
    some = {("sign", "lenet"): readings(LEARNT)}
    assert "So far 1 of 86 pairs" in page(some, 86)
    assert "So far" not in page(some, 1)
