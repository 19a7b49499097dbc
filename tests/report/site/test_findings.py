"""Findings: numbers are put into declared sentences, and a sentence that the numbers contradict is not written."""

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import KNOWING, PAPER, ResultRow, ResultTable
from leaklab.report.site.findings import Finding, load_findings, sentence_of
from leaklab.report.site.questions import Questions


def number(metric, value, attacker=PAPER, **row):
    return ResultRow("lrp", "figure2", row, metric, value, attacker=attacker)


RESULTS = ResultTable(
    (
        number("psnr", 17.84, defense="none"),
        number("psnr", 12.0, defense="lrp"),
        number("psnr", 17.94, KNOWING, defense="lrp"),
        number("found", 0.744, defense="none"),
        number("mse", 0.00107, defense="none"),
    )
)


def written(says, holds=""):
    return sentence_of(Finding(says=says, holds=holds), Questions("lrp", RESULTS))


def test_numbers_are_those_of_the_table_and_of_the_attacker_named():
    says = "{T('figure2', 'psnr', defense='lrp', attacker=PAPER) | .1f} and {T('figure2', 'psnr', defense='lrp', attacker=KNOWING) | .1f} dB."  # noqa: E501
    assert written(says).text == "12.0 and 17.9 dB."


@pytest.mark.parametrize(
    ("metric", "form", "shown"),
    [("found", ".0%", "74 %"), ("mse", ".2g", "0.0011"), ("psnr", ".0f", "18"), ("psnr", "+.1f", "+17.8")],
)
def test_formats(metric, form, shown):
    assert written(f"{{T('figure2', '{metric}', defense='none') | {form}}}").text == shown


def test_a_sentence_that_the_numbers_contradict_is_left_out_with_the_reason():
    found = written("LRP hides.", "T('figure2', 'psnr', defense='lrp', attacker=KNOWING) < 15")
    assert found.text == ""
    assert found.why == "it no longer holds"
    assert written("LRP hides.", "T('figure2', 'psnr', defense='lrp') < 15").text == "LRP hides."


def test_a_sentence_without_its_number_is_left_out_with_the_reason():
    found = written("{T('figure2', 'psnr', defense='soteria') | .1f} dB")
    assert (found.text, "figure2 has no psnr" in found.why) == ("", True)


@pytest.mark.parametrize("says", ["{T('a') | }", "{__import__('os') | .1f}", "{T(|.1f}", "{T('figure2','psnr')}"])
def test_what_is_no_expression_is_refused(says):
    with pytest.raises(UserError):
        written(says)


def test_the_projects_findings_are_in_the_language():
    for paper, items in load_findings().items():
        for findings in items.values():
            for finding in findings:
                sentence_of(finding, Questions(paper, ResultTable()))
