"""Numbers that a paper prints in a sentence stand beside ours, which an expression computes from the tables."""

from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.report.judge.printed import beside_text, read_in_text
from leaklab.report.numbers.results import ResultRow, ResultTable

PAPERS = Path(__file__).parents[3] / "config/papers"
HEAD = "paper,item,row,metric,value,std,unit,better,measured,note\n"
KEPT = "100*T('figure3','acc',defense='dp')/T('figure3','acc',defense='none')"


def number(value, defense, **more):
    return ResultRow("outpost", "figure3", {"defense": defense}, "acc", value, **more)


def told(tmp_path, measured=KEPT, value="91.5"):
    path = tmp_path / "sentences.csv"
    path.write_text(
        f'{HEAD}outpost,figure3,"{{""defense"": ""dp""}}",kept,{value},,%,higher,"{measured}",section V-A\n'
    )
    return read_in_text(path)


def only(results, numbers):
    (found,) = beside_text(ResultTable(tuple(results)), numbers)
    return found


def test_ours_is_what_the_expression_gives(tmp_path):
    found = only([number(60.0, "dp"), number(80.0, "none")], told(tmp_path))
    assert (found.printed, found.value, found.difference) == (91.5, 75.0, -16.5)
    assert (found.paper, found.item, found.row, found.metric) == ("outpost", "figure3", {"defense": "dp"}, "kept")


def test_such_a_number_is_never_within_a_tolerance(tmp_path):
    found = only([number(91.5, "dp"), number(100.0, "none")], told(tmp_path))
    assert (found.value, found.within, found.class_name, found.tolerance) == (91.5, "not compared", "order only", None)


def test_a_stand_in_of_any_number_behind_it_is_told(tmp_path):
    found = only([number(60.0, "dp", substitutes=("half of it",)), number(80.0, "none")], told(tmp_path))
    assert (found.value, found.reason, found.difference) == (75.0, "rests on a stand-in: half of it", None)


def test_what_cannot_be_computed_says_why(tmp_path):
    there, gone = number(80.0, "none"), number(None, "dp", note="not run: data not here: EMNIST")
    assert only([there, gone], told(tmp_path)).reason == "not run: data not here: EMNIST"
    found = only([there], told(tmp_path))
    assert (found.value, "figure3 has no acc" in found.reason) == (None, True)
    assert "no results at this scale" in only([], told(tmp_path)).reason


def test_another_papers_table_is_not_seen(tmp_path):
    other = [ResultRow("lrp", "figure3", {"defense": name}, "acc", 50.0) for name in ("dp", "none")]
    assert only(other, told(tmp_path)).value is None


@pytest.mark.parametrize("measured", ["__import__('os')", "T(", "x+1"])
def test_what_is_no_expression_is_refused_when_read(tmp_path, measured):
    with pytest.raises(UserError, match=r"sentences\.csv: claim of outpost figure3, kept: "):
        told(tmp_path, measured)


def test_what_gives_no_number_is_refused(tmp_path):
    with pytest.raises(UserError, match="gives no number"):
        only([number(60.0, "dp"), number(80.0, "none")], told(tmp_path, "V('figure3','acc')"))


def test_a_file_without_expressions_is_refused(tmp_path):
    path = tmp_path / "sentences.csv"
    path.write_text("paper,item,row,metric,value,std,unit,better\n")
    with pytest.raises(UserError, match="no column measured"):
        read_in_text(path)


def test_the_projects_own_numbers_are_of_items_and_in_no_table_of_print():
    found = read_in_text(PAPERS / "sentences.csv")
    tables = {(row.paper, row.item, row.metric) for row in ResultTable.read_printed(PAPERS / "targets.csv").rows}
    places = [(one.printed.paper, one.printed.item, one.printed.metric, str(one.printed.row)) for one in found]
    assert len(set(places)) == len(places) == 18
    assert not tables & {place[:3] for place in places}
    for paper, item, *_ in places:
        assert (PAPERS.parent / f"items/{paper}/{item}.yaml").is_file()


def test_on_the_printed_tables_the_expressions_give_what_the_sentences_say():
    """Of LRP tables 1 and 2, where print has both; its text and its table differ by 0.08 and 0.02 points."""
    printed = ResultTable.read_printed(PAPERS / "targets.csv")
    own = [one for one in read_in_text(PAPERS / "sentences.csv") if one.printed.item in ("table1", "table2")]
    found = beside_text(printed, own)
    assert [one.value for one in found] == pytest.approx([0.12, 0.13, 0.31, -0.25, 0.0, 0.14, -0.06], abs=0.005)
    assert max(abs(one.difference) for one in found) < 0.085
