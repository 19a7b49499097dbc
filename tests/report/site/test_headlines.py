"""The answer of a paper: one sentence and a few lines, from the result tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.report.numbers.results import KNOWING, PAPER, UNMARKED, ResultRow, ResultTable
from leaklab.report.site.answers import answer, shown_value
from leaklab.report.site.headlines import Headline, HeadlineLine, load_headlines

LINE = HeadlineLine(
    attacker="DLG", dataset="mnist", setting="one image, one step", hides="images", item="figure2",
    metric="mse_median", shown="median MSE", row={"attack": "dlg"},
    undefended={"defense": "none"}, defended={"defense": "lrp"}, guesses=("mean-image", "class-mean"),
)  # fmt: skip
HEADLINE = Headline(defense="LRP", setting="one image and one step", lines=(LINE,))


def number(value, attacker=PAPER, **keys):
    row = {"attack": "dlg", **keys}
    return ResultRow(
        "lrp", "figure2", row, "mse_median", value, n=7, better="higher", attacker=attacker,
        substitutes=("digits of 8 x 8 pixels",),
    )  # fmt: skip


STRONGEST, GUESS, DEFENDED, KNOWN, OWN = (
    number(1.0, KNOWING, defense="none", by="dlg, closed form scale"),
    number(9.0, UNMARKED, defense="none", selection="mean-image"),
    number(6.0, defense="lrp"),
    number(1.5, KNOWING, defense="lrp", by="dlg, closed form scale"),
    number(5.0, defense="none"),
)
ROWS = (
    STRONGEST,
    GUESS,
    DEFENDED,
    KNOWN,
    OWN,
    number(99.0, defense="none", selection="oracle"),
    number(3.0, UNMARKED, defense="lrp", tried="profiled-scale"),
    number(3.5, UNMARKED, defense="lrp", difference="knowing-paper"),
)


def answered(*rows, headline=HEADLINE, **more):
    return answer("lrp", headline, ResultTable(rows), **more)


def with_values(values, rows=ROWS):
    return [replace(row, value=next((value for one, value in values if one is row), row.value)) for row in rows]


def test_each_attacker_has_his_own_result_without_the_defense():
    (line,) = answered(*ROWS).lines
    assert (line.paper.undefended, line.paper.defended) == (5.0, 6.0)
    assert (line.knowing.undefended, line.knowing.defended) == (1.0, 1.5)
    assert (line.guess, line.guess_is, line.n) == (9.0, "mean image", 7)
    assert (line.paper.name, line.knowing.name) == ("DLG", "DLG, closed form scale")
    assert line.page == "lrp-figure2"
    assert line.substitutes == ("digits of 8 x 8 pixels",)


def test_what_is_left_of_the_protection_lies_between_the_same_attacker_undefended_and_the_guess():
    (line,) = answered(*ROWS).lines
    assert line.paper.left == pytest.approx(1 / 4)
    assert line.knowing.left == pytest.approx(1 / 16)
    assert replace(line.paper, defended=10.0).left == 1
    assert replace(line.paper, defended=0.1).left == 0


def test_the_best_guess_counts_and_is_named():
    (line,) = answered(*ROWS, number(7.0, UNMARKED, defense="none", selection="class-mean")).lines
    assert (line.guess, line.guess_is) == (7.0, "mean of the class")


@pytest.mark.parametrize("undefended", [9.0, 12.0])
def test_of_an_attacker_who_reads_no_more_than_a_guess_nothing_is_said_to_be_hidden(undefended):
    found = answered(*with_values([(OWN, undefended)]))
    assert (found.lines[0].paper.left, found.lines[0].paper.hidden) == (None, None)
    assert "DLG (in the median), who reads none without it" in found.sentence
    assert "from DLG (in the median), and" not in found.sentence


def test_a_share_of_decibels_is_refused():
    with pytest.raises(UserError, match="decibels"):
        answered(*(replace(row, unit="dB") for row in ROWS))


@pytest.mark.parametrize(
    ("paper", "knowing", "words"),
    [
        (8.0, 1.5, "from DLG (in the median), and not from the attacker who knows the defense."),
        (8.0, 8.0, "from DLG (in the median), and from the attacker who knows the defense."),
        (5.5, 1.5, "not from DLG (in the median), and not from the attacker who knows the defense."),
    ],
)
def test_the_sentence_follows_the_numbers_and_carries_the_setting(paper, knowing, words):
    rows = with_values([(DEFENDED, paper), (KNOWN, knowing)])
    assert answered(*rows).sentence == f"With one image and one step, LRP hides images {words}"


def test_what_the_knowing_attacker_is_granted_is_said():
    row = '{"attack": "dlg", "by": "dlg, closed form scale", "defense": "lrp"}'
    key = ("lrp", "figure2", row, KNOWING)
    end = "the attacker who knows the defense (labels granted, {})."
    for public, words in (
        ("train part of mnist", "public images of the same data set"),
        ("train part of cifar10", "public images: train part of cifar10"),
    ):
        assert answered(*ROWS, grants={key: (True, public)}).sentence.endswith(end.format(words))


def two(**second):
    other = LINE.model_copy(update={"item": "figure3", "metric": "mse", **second})
    return HEADLINE.model_copy(update={"lines": (LINE, other)})


OF_OTHER = [replace(row, item="figure3", metric="mse") for row in ROWS]


def test_attackers_are_named_and_means_and_medians_are_told_apart():
    rows = [*with_values([(DEFENDED, 8.0)]), *OF_OTHER]
    found = answered(*rows, headline=two(attacker="GGL"))
    assert "hides images from DLG (in the median), not from GGL (on average), and" in found.sentence
    words = answered(*rows, headline=two(attacker="TAG", hides="words")).sentence
    assert "hides images from DLG (in the median) and words not from TAG (on average), and" in words


def test_one_attacker_on_two_data_sets_is_one():
    found = answered(*ROWS, *OF_OTHER, headline=two()).sentence
    assert found.endswith("and not from the attacker who knows the defense.")
    smoother = [replace(row, row={**row.row, "by": f"{row.row['by']} (smoother)"}) if "by" in row.row else row
                for row in OF_OTHER]  # fmt: skip
    found = answered(*ROWS, *smoother, headline=two()).sentence
    assert found.endswith("and not from the attacker who knows the defense.")
    rows = [replace(row, row={**row.row, "by": "ig"}) if "by" in row.row else row for row in OF_OTHER]
    several = answered(*ROWS, *rows, headline=two()).sentence
    assert several.endswith("and from none of the 2 attackers who know the defense.")


@pytest.mark.parametrize("gone", range(5))
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
