"""All attacks that were tried and the protection left, as an item's page shows them."""

import pytest

from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.site.attacks_tried import Left, protection_left, tried_attacks


def row(value, attacker="", metric="psnr_median", low=None, high=None, note="", **keys):
    return ResultRow("lrp", "figure2", keys, metric, value, ci_low=low, ci_high=high, n=9, clusters=9, unit="dB",
                     better="lower", attacker=attacker, runs=("r",), note=note)  # fmt: skip


RESULTS = ResultTable((
    row(12.0, "paper", defense="lrp"),
    row(18.0, "knowing", defense="lrp", by="dlg, profiled scale"),
    row(12.0, defense="lrp", tried="dlg"),
    row(18.0, low=17.0, high=19.0, defense="lrp", tried="dlg, profiled scale"),
    row(0.3, metric="ssim_median", defense="lrp", tried="dlg"),
    row(0.4, metric="ssim_median", defense="lrp", tried="dlg, profiled scale"),
    row(6.0, defense="lrp", difference="knowing - paper"),
    row(20.0, "knowing", defense="none", by="dlg"),
    row(20.0, defense="none", tried="dlg"),
    row(130.0, "paper", "protection_left", 90.0, 170.0, defense="lrp"),
    row(40.0, "knowing", "protection_left", -10.0, 60.0, defense="lrp", by="dlg, profiled scale"),
    row(None, "paper", "protection_left", note="no premise: nothing to protect", defense="soteria"),
))  # fmt: skip


def test_all_attacks_by_the_headline_metric_where_several_were_tried():
    dlg, profiled = tried_attacks(RESULTS, "psnr")
    assert (dlg.row, dlg.attack, dlg.value, dlg.interval) == ({"defense": "lrp"}, "dlg", 12.0, None)
    assert (profiled.attack, profiled.value, profiled.interval) == ("dlg, profiled scale", 18.0, (17.0, 19.0))
    assert (dlg.strongest, profiled.strongest) == (False, True)


@pytest.mark.parametrize("headline", ["", "mse"])
def test_without_a_headline_in_the_table_nothing_is_shown(headline):
    assert tried_attacks(RESULTS, headline) == ()


def test_protection_left_is_told_between_nothing_and_all_with_its_interval():
    lrp, soteria = protection_left(RESULTS)
    assert lrp.row == {"defense": "lrp"}
    assert lrp.by_attacker == {"paper": Left(100.0, (90.0, 100.0)), "knowing": Left(40.0, (0.0, 60.0))}
    assert soteria.by_attacker == {"paper": Left(None, None, "no premise: nothing to protect")}
