"""Every attacker's row of a published table joins with one line that says what the attacker had to know."""

import csv
import shutil
from collections import Counter
from pathlib import Path

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import load_items
from leaklab.observations.letters import letter_of
from leaklab.records.errors import UserError
from leaklab.report.numbers.results import ResultTable
from leaklab.report.site.threat_letters import FILE
from leaklab.report.site.threats import COLUMNS, KEYS, lines_of, write_lines
from leaklab.specs.base import run_id

ROOT = Path(__file__).parents[3]
ITEMS = load_items(ROOT / "config/items")
SMALL = ROOT / "results/small"
TABLES = sorted(path for path in SMALL.glob("*/*.csv") if f"{path.parent.name}/{path.stem}" in ITEMS)


def read(path):
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def key_of(line):
    return tuple(line[name] for name in KEYS)


def unjoined(tables, lines):
    """Return the keys of attackers' rows that do not join with exactly one line, and lines that no row has."""
    rows = {key_of(row) for table in tables for row in read(table) if row["attacker"]}
    counts = Counter(map(key_of, lines))
    return {key for key in rows if counts[key] != 1} | (set(counts) - rows)


def test_every_row_of_an_attacker_joins_with_one_line():
    lines = read(SMALL / FILE)
    assert len(lines) > 4000
    assert not unjoined(TABLES, lines)


@pytest.mark.parametrize("column", ["row", "attacker", "item"])
def test_a_planted_mismatch_is_found(column):
    lines = read(SMALL / FILE)
    lines[7] = {**lines[7], column: f"{lines[7][column]} "}
    assert len(unjoined(TABLES, lines)) == 2
    assert len(unjoined(TABLES, [*lines[:7], *lines[8:]])) == 1
    assert len(unjoined(TABLES, [*lines, lines[9]])) > len(unjoined(TABLES, lines))


def test_the_published_file_is_what_plan_and_tables_say_today(tmp_path):
    lines = {f"{path.parent.name}/{path.stem}": path for path in TABLES}
    made = [line for key in ITEMS if key in lines for line in lines_of(ITEMS[key], "small", lines[key])]
    write_lines(tmp_path / FILE, made)
    assert sorted(map(key_of, read(tmp_path / FILE))) == sorted(map(key_of, read(SMALL / FILE)))
    assert sorted((tmp_path / FILE).read_text().splitlines()) == sorted((SMALL / FILE).read_text().splitlines())


def test_marks_stand_in_columns_of_their_own():
    lines = {(line["row"], line["attacker"]): line for line in lines_of_item("hyperfl/table3")}
    found = [line for (row, _), line in lines.items() if '"by": "annealed-map, matched dp sgd"' in row]
    assert {tuple(line[name] for name in COLUMNS[4:]) for line in found} == {
        ("D", "yes", "yes", f"test part of {data}", "honest-but-curious-with-labels", "annealed-map, matched dp sgd")
        for data in ("emnist-byclass", "cifar10")
    }
    papers = [line for line in lines.values() if line["attacks"] == "ig" and line["attacker"] == "paper"]
    assert {(line["letter"], line["labels_granted"], line["public_data"]) for line in papers} == {("B", "yes", "")}


def lines_of_item(key):
    return lines_of(ITEMS[key], "small", SMALL / f"{key}.csv")


def test_a_row_has_the_letter_of_the_attack_whose_run_it_names_first():
    """Differences and protection rest on runs of the undefended client too, whose attack may be another one."""
    key = "outpost/first-layer"
    letters = {run_id(run.spec): letter_of(run.tried) for run in expand(ITEMS[key], "small") if run.tried}
    rows = [row for row in ResultTable.read(SMALL / f"{key}.csv").rows if row.attacker and row.runs]
    mixed = [row for row in rows if len({letters[run].name for run in row.runs}) > 1]
    assert mixed
    lines = {(line["row"], line["attacker"]): line["letter"] for line in lines_of_item(key)}
    by = [row for row in mixed if row.row.get("by") == "support-quotient, outpost support"]
    assert by
    for row in by:
        found = {
            letter for (text, attacker), letter in lines.items() if attacker == "knowing" and row.row["by"] in text
        }
        assert found == {"C"}
        assert letters[row.runs[0]].name == "C"


def test_a_row_without_numbers_has_the_letter_of_the_attack_that_was_not_run():
    (line,) = [line for line in lines_of_item("lrp/figure8") if line["row"] == '{"defense": "bsp"}']
    assert line["letter"] == "D"
    assert line["public_data"]


def test_attacks_on_text_are_among_them():
    lines = lines_of_item("lrp/table7")
    assert {line["letter"] for line in lines} == {"B"}
    assert {"tag", "profiled-tag"} <= {line["attacks"] for line in lines}


def test_tables_without_attackers_have_no_line():
    assert lines_of_item("lrp/table1") == []


def test_a_table_of_runs_that_the_item_no_longer_asks_for_is_named(tmp_path):
    table = tmp_path / "table7.csv"
    shutil.copyfile(SMALL / "lrp/table7.csv", table)
    name = next(row.runs[0] for row in ResultTable.read(table).rows if row.attacker and row.runs)
    table.write_text(table.read_text().replace(name, f"{name[:-8]}00000000"))
    with pytest.raises(
        UserError, match=rf"rests on {name[:-8]}00000000, which is no attack of config/items/lrp/table7"
    ):
        lines_of(ITEMS["lrp/table7"], "small", table)


def test_attacks_that_differ_are_listed_in_one_line(tmp_path):
    """Two lines of the same row and attacker that rest on different attacks."""
    source = read(SMALL / "lrp/table7.csv")
    first = next(row for row in source if row["attacker"] == "paper" and row["runs"])
    names = dict.fromkeys(row.runs[0] for row in ResultTable.read(SMALL / "lrp/table7.csv").rows if row.runs)
    chosen = [next(name for name in names if f"-{kind}-on" in name) for kind in ("tag", "token-order")]
    table = tmp_path / "table7.csv"
    with table.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(first))
        writer.writeheader()
        writer.writerows({**first, "substitutes": "", "runs": name, "metric": name} for name in chosen)
    (line,) = lines_of(ITEMS["lrp/table7"], "small", table)
    assert line["attacks"] == "tag; token-order"
    assert line["letter"] == "B"
