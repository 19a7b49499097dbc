"""Each goal of speed is read from the table that measured it, and a missed one says what stands between."""

import json
from datetime import datetime
from math import inf, nan
from pathlib import Path

import pandas as pd
import pytest
from goals import demo
from goals.missed import WHY
from goals.page import page, table
from goals.rows import Row, attacks, commands, every_row, missed, training, whole
from goals.suite import lines, seconds_of_tests

COLUMNS = ["workload", "contestant", "repeat", "cpu", "steps", "iterations", "reason"]


def write(folder, name, rows, columns=COLUMNS):
    pd.DataFrame(rows, columns=columns).to_csv(folder / name, index=False)


def test_a_ratio_is_that_of_the_medians_of_seconds_a_step(tmp_path):
    write(tmp_path, "training.csv", [
        ["w1-cnn-sweep", "ours", 1, 2.0, 10, "", ""], ["w1-cnn-sweep", "ours", 2, 8.0, 10, "", ""],
        ["w1-cnn-sweep", "ours", 3, 1.0, 10, "", ""], ["w1-cnn-sweep", "plain", 1, 12.0, 10, "", ""],
        ["w1-cnn-sweep", "plain", 2, 99.0, 10, "", "broke"],
    ])  # fmt: skip
    found = {row.what: row.value for row in training(tmp_path)}
    assert found["sweep of the CNN 10/20/50"] == pytest.approx(6.0)
    assert found["one cell of it"] != found["one cell of it"]


def test_attacks_are_held_against_breaching_by_iteration(tmp_path):
    write(tmp_path, "attacks.csv", [["a2-ig", "ours", 1, 1.0, "", 10, ""], ["a2-ig", "breaching", 1, 4.0, "", 20, ""]])
    (row,) = (row for row in attacks(tmp_path) if row.missed == "attack a2-ig")
    assert (row.value, row.met) == (pytest.approx(2.0), False)


def test_commands_and_predictions_are_read_by_their_names(tmp_path):
    write(tmp_path, "operations.csv", [["`leaklab items`", 0.4]], ["what", "value"])
    write(tmp_path, "growth_items.csv", [["a", 10, 4.9], ["b", 10, 5], ["c", 10, 20], ["d", 10, 21]],
          ["item", "likely_seconds", "measured_seconds"])  # fmt: skip
    write(tmp_path, "small_hours.csv", [["rule", 3.0], ["all", 8.0]], ["by", "hours"])
    write(tmp_path, "small_hours_gained.csv", [["all", 8.0, 5.0], ["rule", 3.0, 0.0]], ["name", "hours", "hours_then"])
    assert [row.met for row in commands(tmp_path)] == [True, None]
    values = [row.value for row in whole(tmp_path)]
    assert values[:3] == [4.0, 2.5, 50.0]
    # a goal that is missed has its words, whatever kind of number the table has
    assert [row.missed for row in missed(whole(tmp_path))] == ["prediction"]


def test_without_tables_nothing_is_said_to_be_reached_or_missed(tmp_path):
    assert {row.met for row in every_row(tmp_path)} == {None}
    assert "No goal that was measured is missed." in page(every_row(tmp_path), {})


def test_a_page_says_what_its_rows_say():
    rows = [
        Row("Part", "fast", 5.0, inf, "x", peer="a peer", share=62.4),
        Row("Part", "slow", 0.5, 0.75, "s", at_most=True, missed="slow"),
        Row("Part", "unknown", 1.0, nan, "h"),
        Row("Part", "long", 720.0, 3358.0, "s"),
    ]
    text = page(rows, {"slow": "Three ways."})
    assert "| fast | ≥ 5 x | ∞ x | a peer | 62 % | reached |" in text
    assert "| slow | ≤ 0.5 s | 0.75 s |  |  | **missed** |" in text
    assert "| long | ≥ 720 s | 3,358 s |" in text
    assert "| unknown | ≥ 1 h | - |  |  | - |" in text
    assert "**slow.** Three ways." in text
    assert text.count("**Part**") == 1
    assert table(rows) in text


def test_every_word_on_what_stands_between_belongs_to_a_goal():
    keys = {row.missed for row in every_row(Path(__file__).parents[2] / "benchmarks")}
    assert set(WHY) <= keys
    assert missed([Row("", "", 1.0, 2.0, "x")]) == []


def test_the_time_of_tests_is_told_by_folder_and_file(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.workflow.test_demo" name="a" time="90.0"/>'
        '<testcase classname="tests.workflow.test_demo.TestDemo" name="b" time="6.0"/>'
        '<testcase classname="tests.workflow.test_kills" name="c" time="2.0"/>'
        '<testcase classname="tests.test_cli" name="d" time="2.0"/></testsuite></testsuites>'
    )
    found = seconds_of_tests(report)
    assert found.to_dict("records") == [
        {"folder": "workflow", "file": "tests/workflow/test_demo.py", "tests": 2, "seconds": 96.0},
        {"folder": ".", "file": "tests/test_cli.py", "tests": 1, "seconds": 2.0},
        {"folder": "workflow", "file": "tests/workflow/test_kills.py", "tests": 1, "seconds": 2.0},
    ]
    text = page([Row("The whole", "`make test`", 720.0, 900.0, "s", at_most=True, missed="make test")], WHY,
                {"make test": list(lines(found))})  # fmt: skip
    assert "4 tests take 100 seconds of their processes." in text
    assert "| **tests/workflow** | 3 | 98 | 98% |" in text
    assert "| **tests** | 1 | 2 | 2% |" in text


def test_the_time_of_the_demo_is_told_by_rule_from_the_records_of_its_own_jobs(tmp_path):
    for place, rule, started, seconds in (
        ("results/runs/train/a", "train", "2026-01-02T00:00:05+00:00", 3.0),
        ("results/runs/train/b", "train", "2026-01-02T00:00:09+00:00", 4.0),
        ("figures/demo/lrp", "figure", "2026-01-02T00:00:20+00:00", 1.0),
        ("results/small/lrp", "figure", "2026-01-01T00:00:00+00:00", 99.0),
    ):
        (tmp_path / place).mkdir(parents=True)
        record = {"rule": rule, "started": started, "cpu_seconds": seconds}
        (tmp_path / place / "x.run.json").write_text(json.dumps(record))
    table = demo.seconds_of_jobs(tmp_path, datetime.fromisoformat("2026-01-02T00:00:05+00:00").timestamp() + 0.5)
    assert table.to_dict("list") == {"rule": ["train", "figure"], "jobs": [2, 1], "seconds": [7.0, 1.0]}
    text = list(demo.lines(table, 8.0, 2))
    assert "3 jobs with a record took 8 of the 16 seconds of 2 cores" in text[0]
    assert "| train | 2 | 7.0 | 43.8% |" in text
    assert "## Where the time of `make demo` goes" in page([], {}, {"make demo": text})
