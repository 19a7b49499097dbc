"""Which metrics are shares, and what their summaries are."""

import pytest

from leaklab.metrics.base import LABEL_CARD
from leaklab.metrics.intervals import FRACTIONS, OUTCOMES, is_share, paired_difference_for, summarise_for
from leaklab.metrics.statistics import paired_difference, summarise
from leaklab.metrics.text.scoring import NAMES, POSITION_RECOVERY_CARD, TOKEN_RECOVERY_CARD
from leaklab.metrics.text.sentences import SENTENCE_CARDS
from leaklab.records import plugins


def cards():
    return [LABEL_CARD, *(plugins.load("metrics", name).card for name in plugins.available("metrics"))]


def test_every_metric_whose_card_says_share_is_summarised_as_one_and_no_other():
    said = {card.name for card in cards() if "the share of them" in card.averaging or "0 or 1 per" in card.averaging}
    assert said == OUTCOMES
    of_batches = {card.name for card in SENTENCE_CARDS if card.averaging.startswith("share")}
    assert {*NAMES, *of_batches, TOKEN_RECOVERY_CARD.name, POSITION_RECOVERY_CARD.name} == FRACTIONS
    assert not is_share("psnr")


def test_equal_outcomes_have_an_interval_with_a_width_and_other_values_the_old_one():
    assert (summarise([1.0] * 8).ci_low, summarise([1.0] * 8).ci_high) == (1, 1)
    share = summarise_for("exact_share", [1.0] * 8)
    assert (share.ci_low, share.ci_high) == pytest.approx((0.6306, 1), abs=1e-4)
    assert summarise_for("psnr", [1.0] * 8) == summarise([1.0] * 8)


def test_a_share_differs_from_a_mean_in_its_interval_alone():
    values, keys = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0, 0, 1, 2, 3, 4, 5, 6, 7]
    own, old = summarise_for("label_correct", values, keys), summarise(values, keys)
    same = ("n", "clusters", "mean", "median", "std", "median_low", "median_high")
    assert all(getattr(own, name) == getattr(old, name) for name in same)
    assert 0 < own.ci_low < own.mean < own.ci_high < 1 < old.ci_high


def test_the_difference_of_shares_that_never_differ_is_no_point():
    equal = paired_difference_for("exact_share", [1.0] * 8, [1.0] * 8)
    assert (equal.mean, equal.ci_low) == (0, pytest.approx(-equal.ci_high))
    assert 0.3 < equal.ci_high < 0.5
    assert paired_difference_for("psnr", [1.0] * 8, [2.0] * 8) == paired_difference([1.0] * 8, [2.0] * 8)
    assert paired_difference_for("exact_share", [1.0] * 5, [0.0] * 5).ci_low is None
