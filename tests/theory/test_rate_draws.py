"""The statistics of LRP's draws: right for the defense as it is, and wrong defenses are found out."""

from dataclasses import dataclass

import numpy as np
import pytest

from leaklab.defenses.base import Defense
from leaklab.defenses.lrp import LearningRatePerturbation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.theory import draws
from leaklab.theory.base import Clients
from leaklab.theory.draws import RateDraws, contexts, law, rates, used_factors

DEAL = Clients(sizes=(160, 480, 800, 1440, 160, 320), class_counts=(1, 3, 5, 8, 2, 2))


def untracked(items, total, label):
    return items


def numbers(check=None, clients=DEAL, seed=3):
    found = list((check or RateDraws(rounds=8)).run(seed, clients, untracked))
    assert len({number.metric for number in found}) == len(found)
    assert all(number.row == {} and number.index is None for number in found)
    return {number.metric: number.value for number in found}


def test_the_plugin_is_found_by_name():
    assert plugins.load("theory", "rate-draws", {"rounds": 2}) == RateDraws(rounds=2)


def test_the_draws_follow_equations_10_and_12():
    found = numbers()
    assert found["rate_min"] >= 0
    assert 0.99 < found["rate_max_over_2mean"] <= 1
    assert found["mean_over_expected"] == pytest.approx(1, abs=0.03)
    assert found["ks_pvalue"] >= 0.01


def test_the_class_factor_averages_to_one_but_not_with_the_weights():
    """Eq. (13) with beta = 1; the closed form of the second mean is 1 + zeta * cov(Y, p N)."""
    found = numbers()
    assert found["mean_class_factor"] == pytest.approx(1, abs=1e-12)
    covariance = np.cov(DEAL.class_counts, np.array(DEAL.sizes) / np.mean(DEAL.sizes), bias=True)[0, 1]
    assert found["mean_factor_times_pN"] == pytest.approx(1 + covariance / 6, rel=1e-12)
    assert found["mean_factor_times_pN"] > 1
    assert found["clipped_clients"] == 0


def test_cut_factors_are_counted_and_move_the_mean():
    """Slope 1: factors 1 + Y - 3.5 of the clients with one and two classes are not positive."""
    found = numbers(RateDraws(rounds=8, class_slope=1.0))
    assert found["clipped_clients"] == 3
    assert found["mean_class_factor"] == pytest.approx((0.5 + 2.5 + 5.5 + 3 * 1e-3) / 6)
    assert found["ks_pvalue"] >= 0.01


def test_ada_lrp_draws_larger_rates_where_clients_with_many_classes_have_many_samples():
    """The largest end of a range is that of the client with 8 classes and 1440 samples: K_k = 1 + 4.5 / 6 = 1.75."""
    found = numbers(RateDraws(rounds=60))
    assert found["largest_rate_over_lrp"] == pytest.approx(1.75, rel=0.01)


def test_the_clients_with_the_fewest_samples_say_how_many_classes_a_shard_has():
    found = numbers()
    assert (found["most_classes_of_fewest"], found["one_class_of_fewest"]) == (2, 0.5)


def test_other_seeds_draw_other_rates():
    assert numbers(seed=3) == numbers(seed=3)
    assert numbers(seed=3)["ks_pvalue"] != numbers(seed=4)["ks_pvalue"]


def test_the_two_algorithms_do_not_share_draws():
    """Two tests on the same numbers would be one test; the factors, in contrast, come from the same draw."""
    check = RateDraws(rounds=1, local_steps=20)
    plain, again = check._drawn([LearningRatePerturbation()] * 2, DEAL, 0, untracked)
    assert not np.isin(plain, again).any()


@dataclass(frozen=True)
class OneDrawPerRound(Defense):
    """A wrong defense: the rate stays for all steps of a round."""

    def local_rate(self, context):
        if context.step:
            context = contexts(DEAL, 0.01, context.seed, context.round, context.draw)[context.client]
        return LearningRatePerturbation().local_rate(context)


@dataclass(frozen=True)
class Unperturbed(Defense):
    """A wrong defense: the mean itself."""


@dataclass(frozen=True)
class TooWide(Defense):
    """A wrong defense: U(0, 2.2 mean)."""

    def local_rate(self, context):
        return 1.1 * LearningRatePerturbation().local_rate(context)


@pytest.mark.parametrize("wrong", [OneDrawPerRound(), Unperturbed(), TooWide()], ids=lambda d: type(d).__name__)
def test_wrong_defenses_are_found_out(wrong):
    check = RateDraws(rounds=8, local_steps=50)
    means = [np.array([asked.scaled_rate for asked in contexts(DEAL, check.rate, 0)])]
    found = {n.metric: n.value for n in law(check._drawn([wrong], DEAL, 0, untracked), means)}
    right = {n.metric: n.value for n in law(check._drawn([LearningRatePerturbation()], DEAL, 0, untracked), means)}
    assert found["ks_pvalue"] < 1e-6 < 0.01 <= right["ks_pvalue"]
    if isinstance(wrong, TooWide):
        assert found["rate_max_over_2mean"] > 1 >= right["rate_max_over_2mean"]
        assert found["mean_over_expected"] > 1.05


def test_a_fault_of_one_algorithm_is_not_hidden_by_the_other():
    good = np.linspace(0, 2, 2000).reshape(1, 1, -1)
    found = {n.metric: n.value for n in law([good, good - 0.1], [np.ones(1), np.ones(1)])}
    assert found["rate_min"] == pytest.approx(-0.1)
    assert found["mean_over_expected"] == pytest.approx(0.9)
    assert found["ks_pvalue"] < 0.01


def test_factors_are_read_off_the_defense_not_off_a_formula():
    wrong, plain = LearningRatePerturbation(class_slope=0.1, class_offset=0.9), LearningRatePerturbation()
    assert used_factors(wrong, plain, DEAL, 0.01, 0).mean() == pytest.approx(0.9)


def test_rates_go_on_through_the_steps():
    (first, *_), (again, *_) = (contexts(DEAL, 0.01, 5) for _ in range(2))
    defense = LearningRatePerturbation()
    assert rates(defense, first, 3) == [float(defense.local_rate(again)) for _ in range(3)]


@pytest.mark.parametrize("check", [RateDraws(rounds=0), RateDraws(local_steps=0), RateDraws(rate=0.0)])
def test_settings_without_draws_are_refused(check):
    with pytest.raises(UserError, match="above 0"):
        numbers(check)


def test_a_deal_is_needed():
    with pytest.raises(UserError, match="partition"):
        numbers(clients=None)


def test_the_expected_factors_do_not_ask_the_defense(monkeypatch):
    """If the defense's factor went wrong, the p-value must show it."""
    monkeypatch.setattr("leaklab.defenses.lrp.class_factor", lambda *_: 1.2)
    assert draws.expected_factors([1, 3], 0.5).tolist() == [0.5, 1.5]
    assert numbers()["ks_pvalue"] < 1e-6
