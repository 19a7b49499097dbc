"""The answer of a paper: one sentence and a few lines, from the result tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import KNOWING, PAPER, UNMARKED, ResultRow, ResultTable
from leaklab.report.site.headlines import Headline, HeadlineLine, answer, load_headlines, shown_value

LINE = HeadlineLine(
    attack="DLG on digits", hides="images", item="figure2",
    metric="psnr_median", shown="median PSNR", row={"attack": "dlg"},
    undefended={"defense": "none"}, defended={"defense": "lrp"}, guess={"selection": "mean-image"},
    guess_is="mean image",
)  # fmt: skip
HEADLINE = Headline(defense="LRP", lines=(LINE,))


def number(value, attacker=PAPER, **keys):
    row = {"attack": "dlg", **keys}
    return ResultRow(
        "lrp", "figure2", row, "psnr_median", value, n=7, unit="dB", better="lower", attacker=attacker,
        substitutes=("digits of 8 x 8 pixels",),
    )  # fmt: skip


UNDEFENDED, GUESS, DEFENDED = (
    number(50.0, KNOWING, defense="none", by="closed-form-scale"),
    number(10.0, UNMARKED, defense="none", selection="mean-image"),
    number(14.0, defense="lrp"),
)
ROWS = (
    UNDEFENDED,
    GUESS,
    DEFENDED,
    number(49.0, KNOWING, defense="lrp", by="closed-form-scale"),
    number(45.0, defense="none"),
    number(99.0, defense="none", selection="oracle"),
    number(30.0, UNMARKED, defense="lrp", tried="profiled-scale"),
    number(35.0, UNMARKED, defense="lrp", difference="knowing-paper"),
)


def test_each_number_is_that_of_its_attacker():
    found = answer("lrp", HEADLINE, ResultTable(ROWS))
    (line,) = found.lines
    assert (line.undefended, line.paper, line.knowing, line.guess, line.n) == (50.0, 14.0, 49.0, 10.0, 7)
    assert line.page == "lrp-figure2"
    assert line.substitutes == ("digits of 8 x 8 pixels",)


def test_what_is_left_of_the_protection_lies_between_undefended_and_guessing():
    (line,) = answer("lrp", HEADLINE, ResultTable(ROWS)).lines
    assert line.left(line.paper) == pytest.approx(36 / 40)
    assert line.left(line.knowing) == pytest.approx(1 / 40)
    assert line.left(5.0) == 1
    assert line.left(60.0) == 0


@pytest.mark.parametrize(
    ("paper", "knowing", "words"),
    [
        (14.0, 49.0, "LRP hides images from the attacker of the paper, and from no attacker who knows the defense."),
        (14.0, 12.0, "LRP hides images from the attacker of the paper, and from the attacker who knows the defense."),
        (45.0, 49.0, "LRP hides images from no attacker of the paper, and from no attacker who knows the defense."),
    ],
)
def test_the_sentence_follows_the_numbers(paper, knowing, words):
    rows = (UNDEFENDED, GUESS, number(paper, defense="lrp"), number(knowing, KNOWING, defense="lrp"))
    assert answer("lrp", HEADLINE, ResultTable(rows)).sentence == words


def test_several_attacks_are_counted():
    other = [replace(row, item="figure3", value=45.0 if row is DEFENDED else row.value) for row in ROWS]
    two = HEADLINE.model_copy(update={"lines": (LINE, LINE.model_copy(update={"item": "figure3", "hides": "words"}))})
    words = answer("lrp", two, ResultTable((*ROWS, *other))).sentence
    known = "and from none of those who know the defense."
    assert words == f"LRP hides images and words from 1 of the paper's 2 attackers, {known}"
    both = answer("lrp", two, ResultTable((*ROWS, *(replace(row, item="figure3") for row in ROWS)))).sentence
    assert both == f"LRP hides images and words from both of the paper's attackers, {known}"


@pytest.mark.parametrize("gone", range(4))
def test_a_line_without_one_of_its_numbers_is_left_out(gone):
    rows = [row for place, row in enumerate(ROWS) if place != gone]
    assert answer("lrp", HEADLINE, ResultTable(tuple(rows))) is None
    rows.insert(gone, replace(ROWS[gone], value=None))
    assert answer("lrp", HEADLINE, ResultTable(tuple(rows))) is None


def test_two_numbers_for_one_place_are_refused():
    with pytest.raises(UserError, match="names 2 numbers"):
        answer("lrp", HEADLINE, ResultTable((*ROWS, number(1.0, defense="lrp", dataset="other"))))


@pytest.mark.parametrize(
    ("value", "unit", "metric", "shown"),
    [
        (17.823, "dB", "psnr_unit", "17.8 dB"),
        (0.7436, "", "token_recovery_mean", "74 %"),
        (5.7379e-06, "", "mse_median", "0.0000057"),
        (0.33962, "", "mse_median", "0.34"),
        (98.234, "%", "test_accuracy", "98.2 %"),
        (12.0, "", "mse", "12"),
    ],
)
def test_numbers_are_short_and_have_their_unit(value, unit, metric, shown):
    assert shown_value(value, unit, metric) == shown


def test_the_projects_own_headlines_name_items_and_metrics_that_are_there():
    headlines = load_headlines()
    assert "lrp" in headlines
    table = ResultTable()
    for line in headlines["lrp"].lines:
        table += ResultTable.read(Path(f"results/small/lrp/{line.item}.csv"))
    assert len(answer("lrp", headlines["lrp"], table).lines) == len(headlines["lrp"].lines) == 3


def test_an_unknown_key_is_refused(tmp_path):
    file = tmp_path / "headlines.yaml"
    file.write_text("lrp: {defense: LRP, lines: [], typo: 1}")
    with pytest.raises(UserError, match="typo"):
        load_headlines(file)
