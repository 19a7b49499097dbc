"""What would decide an undecided claim: how many more updates, seeds or draws."""

import json
import math
from dataclasses import replace

import pytest
from scipy import stats
from typer.testing import CliRunner

from leaklab import cli
from leaklab.records.errors import UserError
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.tolerances import StandIns
from leaklab.report.judge.undecided import published_results, undecided
from leaklab.report.numbers.results import ResultRow, ResultTable

CLAIM = Claim("X-01", "lrp", "table1", "a is above one", "T('table1','psnr',m='a')>1", sentence="found [dB]")


def row(value, std, clusters, metric="psnr", **more):
    reach = stats.t.ppf(0.975, clusters - 1) * std / math.sqrt(clusters) if clusters > 1 else 0
    ends = {"ci_low": value - reach, "ci_high": value + reach} if clusters >= 6 else {}
    more = {"attacker": "paper", **ends, **more}
    return ResultRow("lrp", "table1", {"m": "a"}, metric, value, std, n=clusters, clusters=clusters, **more)


def needs(*rows, claim=CLAIM):
    return undecided([claim], ResultTable(rows), ResultTable(), StandIns(), "small")


def test_of_a_mean_the_margin_against_the_spread_says_how_many():
    (need,) = needs(row(1.5, 1.0, 8))
    assert (need.unit, need.now) == ("updates", 8)
    reach = [stats.t.ppf(0.975, n - 1) / math.sqrt(n) for n in (need.needed - 1, need.needed)]
    assert reach[1] < 0.5 <= reach[0]
    assert need.factor == need.needed / 8
    assert needs(row(1.5, 1.0, need.needed)) == []


def test_of_a_number_on_the_wrong_side_too():
    (need,) = needs(row(0.5, 1.0, 8))
    assert need.needed == needs(row(1.5, 1.0, 8))[0].needed


def test_of_a_share_the_exact_interval_says():
    claim = replace(CLAIM, check="T('table1','exact_share',m='a')>=0.9")
    (need,) = needs(row(1.0, 0.0, 6, "exact_share"), claim=claim)
    assert need.needed == 36  # 0.025 ** (1 / 36) is 0.9026, and of 35 it is 0.8999
    assert needs(row(1.0, 0.0, 36, "exact_share"), claim=claim) == []


def test_a_number_at_its_bar_is_never_decided():
    claim = replace(CLAIM, check="T('table1','false_certificate',m='a')<=0")
    (need,) = needs(row(0.0, 0.0, 20, "false_certificate"), claim=claim)
    assert (need.needed, need.factor) == (None, None)


def test_one_comparison_that_fails_is_enough_and_of_those_that_hold_the_worst_counts():
    holds = replace(CLAIM, check="T('table1','psnr',m='a')>1 and T('table1','ssim',m='a')>1")
    near, far = row(1.2, 1.0, 8, "ssim"), row(1.5, 1.0, 8)
    (need,) = needs(far, near, claim=holds)
    assert need.needed == needs(row(1.2, 1.0, 8))[0].needed > needs(far)[0].needed
    below = row(0.5, 1.0, 8)
    (need,) = needs(below, near, claim=holds)
    assert need.needed == needs(below)[0].needed


def test_too_few_updates_or_seeds_need_the_fewest_that_decide_anything():
    (need,) = needs(row(1.5, 0.1, 2))
    assert (need.now, need.needed) == (2, 6)
    assert need.why.startswith("at least so many")
    (need,) = needs(row(1.5, None, 1, attacker=""))
    assert (need.unit, need.needed) == ("seeds", 2)


def test_draws_that_do_not_agree_need_more_draws():
    draws = [row(1.1 + 0.3 * (-1) ** k, 0.1, 3, attacker="", variant=f"partition-seed={k}") for k in range(10)]
    table = row(1.1, 0.1, 3, attacker="", ci_low=0.9, ci_high=1.3)
    (need,) = needs(table, *draws, claim=replace(CLAIM, check_per_draw="same"))
    assert (need.unit, need.now) == ("draws", 10)
    assert 30 < need.needed < 60


def test_a_decided_claim_needs_nothing():
    assert needs(row(5.0, 1.0, 8)) == []


def test_a_scale_without_results_is_one_line(tmp_path):
    with pytest.raises(UserError, match="has no result tables"):
        published_results(tmp_path / "paper")


class TestCommand:
    def test_every_undecided_claim_has_a_line_for_people_and_for_programs(self, monkeypatch):
        need = needs(row(1.5, 1.0, 8))[0]
        monkeypatch.setattr("leaklab.report.judge.undecided.undecided_at", lambda scale: [need])
        shown = CliRunner().invoke(cli.app, ["plan", "--undecided"])
        assert shown.exit_code == 0
        assert f" {need.needed} " in shown.output
        found = json.loads(CliRunner().invoke(cli.app, ["plan", "--undecided", "--json"]).output)
        assert [one["claim"] for one in found] == ["X-01"]
        assert found[0]["factor"] == need.factor
        assert found[0]["cpu_seconds"] > 0

    @pytest.mark.parametrize(
        "words",
        [["plan", "lrp", "table1", "--undecided"], ["plan", "--undecided", "--scale", "huge"]],
    )
    def test_what_does_not_go_together_is_refused(self, words):
        assert isinstance(CliRunner().invoke(cli.app, words).exception, UserError)
