"""The page of an item says what each of its attacks has to know."""

import re
from pathlib import Path

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_items
from leaklab.items.layouts import TableLayout
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.site.threat_letters import THREAT_MODEL, threat_models, with_letters
from leaklab.report.tables.layout import lay_out
from leaklab.report.tables.tables import page_table
from leaklab.specs.base import run_id

ITEMS = load_items()


def found(key, scale="small"):
    return {(threat.attack, threat.transform): threat for threat in threat_models(expand(ITEMS[key], scale))}


def test_the_attackers_of_a_table_have_the_letters_of_what_they_ask_for():
    letters = {attack: (threat.letter, threat.attackers) for attack, threat in found("hyperfl/table3").items()}
    assert letters["ig", ""] == ("B+y", ("paper", "knowing"))
    assert letters["ig", "private-classifier"] == ("C+y", ("paper", "knowing"))
    assert letters["ig", "linear-heads"] == ("C+y", ("knowing",))
    assert letters["annealed-map", "matched-dp-sgd"] == ("D+y+d+p", ("knowing",))


def test_a_server_that_changes_weights_is_an_active_one():
    assert {threat.letter[0] for threat in found("outpost/figure6").values()} == {"F"}
    assert found("outpost/figure5")["ig", ""].has.startswith("active manipulator")


def test_each_stands_there_once_the_weakest_first():
    threats = threat_models(expand(ITEMS["lrp/figure2"], "small"))
    assert len({(one.attack, one.transform, one.letter) for one in threats}) == len(threats)
    assert [one.letter for one in threats] == sorted(one.letter for one in threats)


def test_a_training_attacks_nothing():
    assert threat_models(expand(ITEMS["lrp/table1"], "small")) == ()


class TestWithLetters:
    """Rows with attacks of several letters have a column of them; where all are alike a note says it once."""

    RUNS = tuple(run for run in expand(ITEMS["hyperfl/table3"], "small") if threat_models([run]))

    def laid(self, chosen):
        """Lay out one row for each of the runs."""
        spec = TableLayout(
            rows=("name",), columns=("metric",), metric="mse", format="{value:.1f}", attackers=("paper",)
        )
        rows = [
            ResultRow(
                "lrp", "figure2", {"name": f"run {place}"}, "mse", 1.0, attacker="paper", runs=(run_id(run.spec),)
            )
            for place, run in enumerate(chosen)
        ]
        return with_letters(lay_out(spec, ResultTable(tuple(rows))), self.RUNS)

    def of_letter(self, letter):
        return next(run for run in self.RUNS if threat_models([run])[0].letter == letter)

    def test_several_stand_beside_their_rows(self):
        letters = sorted({threat.letter for threat in threat_models(self.RUNS)})
        assert len(letters) > 1
        laid = self.laid([self.of_letter(letter) for letter in letters])
        assert laid.row_titles == ("name", "threat model")
        assert [labels[-1] for labels in laid.row_labels] == letters
        assert f'<th scope="row">run 0 <span>{letters[0]}</span></th>' in page_table(laid, "x")

    def test_a_single_one_is_told_below(self):
        run = self.RUNS[0]
        laid = self.laid([run, run])
        assert laid.row_titles == ("name",)
        assert laid.notes[-1] == f"threat model: {threat_models([run])[0].letter}"

    def test_a_table_of_no_attack_stays_as_it_is(self):
        rows = (ResultRow("lrp", "table1", {"name": "a"}, "mse", 1.0, attacker="paper", runs=("mnist-cnn-none-1",)),)
        spec = TableLayout(rows=("name",), columns=("metric",), metric="mse", attackers=("paper",))
        laid = lay_out(spec, ResultTable(rows))
        assert with_letters(laid, self.RUNS) == laid


PUBLISHED = sorted(path for path in Path("results/small").glob("*/*.csv") if f"{path.parent.name}/{path.stem}" in ITEMS)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_row_with_an_attackers_number_has_a_letter_on_its_page(path):
    """Beside the row, or in one note for all; an item without a table lists its attacks."""
    item, results = ITEMS[f"{path.parent.name}/{path.stem}"], ResultTable.read(path)
    runs = expand(item, "small")
    attackers = [row for row in results.rows if row.of_attacker]
    assert bool(threat_models(runs)) >= bool(attackers)
    if item.table is None or not attackers:
        return
    grid = with_letters(lay_out(item.table, results), runs)
    noted = any(note.startswith(f"{THREAT_MODEL}: ") for note in grid.notes)
    for labels, cells in zip(grid.row_labels, grid.cells, strict=True):
        if any(cell.result and cell.result.of_attacker and cell.result.runs for cell in cells):
            assert noted or re.match(r"[B-G](\+[ydp])*", labels[-1]), labels


def test_an_attack_on_text_and_data_of_others_are_named():
    tag = found("lrp/table7")["tag", ""]
    assert (tag.letter, tag.data) == ("B", "")
    assert found("lrp/summed-clients")["annealed-sum", ""].data == "train part of fashion-mnist"
    assert found("lrp/summed-clients")["annealed-sum", ""].letter == "D+y+d+p"
