from dataclasses import replace

import pytest

from leaklab.report.judge.worst_case import contested, setting_of, worst_case
from leaklab.report.numbers.results import ResultRow, ResultTable


def row(value, attacker="paper", metric="mse_median", better="higher", **keys):
    return ResultRow("lrp", "figure2", {"defense": "lrp", **keys}, metric, value, better=better, attacker=attacker)


PRINTED = row(0.5)
KNOWING = row(0.2, "knowing", transform="x")
TRIED = row(0.1, "knowing", transform="y", selection="transform y")


def values(*rows):
    return [row.value for row in worst_case(ResultTable(rows)).rows]


def test_the_strongest_of_all_that_were_run_is_left():
    assert values(PRINTED, KNOWING, TRIED) == [0.1]
    assert values(PRINTED, KNOWING) == [0.2]


def test_the_papers_own_attacker_is_one_of_them():
    weaker = [replace(one, value=0.9) for one in (KNOWING, TRIED)]
    assert values(PRINTED, *weaker) == [0.5]


def test_the_metrics_own_direction_decides():
    rows = [replace(one, better="lower", metric="psnr_median") for one in (PRINTED, KNOWING, TRIED)]
    assert values(*rows) == [0.5]


def test_each_metric_has_its_own_strongest():
    psnr = [replace(one, metric="psnr_median", better="lower") for one in (PRINTED, KNOWING)]
    assert values(PRINTED, KNOWING, *psnr) == [0.2, 0.5]


def test_of_single_images_all_are_of_one_attacker():
    images = [row(value, image=image) for image, value in ((1, 0.3), (2, 0.9))]
    other = [row(value, "knowing", image=image, transform="x") for image, value in ((1, 0.4), (2, 0.5))]
    assert values(*images, *other) == [0.4, 0.5]


def test_an_attack_that_was_tried_on_text_is_one_of_them():
    printed = row(0.2, metric="token_recovery", better="lower", example=1)
    tried = row(0.9, "knowing", "token_recovery", "lower", example=1, transform="t", selection="attack t")
    assert values(printed, tried) == [0.9]


def test_names_of_transforms_are_taken_out_and_references_stay():
    reference = row(0.7, selection="unrelated-image")
    kept = worst_case(ResultTable((PRINTED, KNOWING, TRIED, reference))).rows
    assert [one.row for one in kept] == [{"defense": "lrp"}, {"defense": "lrp", "selection": "unrelated-image"}]


def test_of_a_curve_without_direction_the_adaptive_attackers_is_taken():
    curve = [row(value, attacker, "loss", "", index=0) for value, attacker in ((1.0, "paper"), (3.0, "knowing"))]
    assert values(*curve) == [3.0]


def test_a_setting_with_one_attacker_keeps_its_own():
    undefended = row(0.4, defense="none")
    assert values(undefended, PRINTED, KNOWING) == [0.4, 0.2]
    both = contested(ResultTable((undefended, PRINTED, KNOWING)))
    assert [setting_of(one) in both for one in (undefended, PRINTED, KNOWING)] == [False, True, True]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_it_is_its_own_worst_case(better):
    table = ResultTable(tuple(replace(one, better=better) for one in (PRINTED, KNOWING, TRIED)))
    assert worst_case(worst_case(table)) == worst_case(table)
