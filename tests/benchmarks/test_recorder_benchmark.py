"""The recorder's benchmark: it times what it says, and the page computes what it shows."""

import ast

import numpy as np
import pandas as pd
from recorder import measuring
from recorder.page import page

ROW = {"parameters": 1000, "megabytes": 8.0, "exchange_s": 0.03, "write_s": 0.01, "sum_s": 0.01,
       "least_exchange_s": 0.02, "least_write_s": 0.008, "least_sum_s": 0.008}  # fmt: skip
ROUND = {"steps": 20, "rounds": 3, "clients": 2, "plain_round_s": 2.0, "recorded_round_s": 2.05, "waiting_s": 0.006,
         "least_more": 0.01, "most_more": 0.04}  # fmt: skip


def test_an_exchange_is_timed_with_its_bytes(monkeypatch):
    monkeypatch.setattr(measuring, "SIZES", {"tiny": 600})
    monkeypatch.setattr(measuring.os, "sync", lambda: None)
    row = measuring.exchange("tiny")
    assert row["megabytes"] == 600 * 2 * 4 / 1e6
    assert min(row["exchange_s"], row["write_s"], row["sum_s"]) > 0


def test_rounds_are_of_the_kind_that_the_training_made_them():
    tree = ast.parse(measuring.APP.read_text(encoding="utf-8"))
    parts = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "is_recorded"]
    parts += [one for one in tree.body if isinstance(one, ast.Assign) and "WARM" in ast.unparse(one.targets[0])]
    space = {}
    exec(compile(ast.Module(parts, []), "app.py", "exec"), space)
    numbers = range(measuring.WARM + 2 * measuring.BLOCK * 4)
    recorded, plain = measuring.blocks([float(space["is_recorded"](number)) for number in numbers])
    assert recorded.shape == plain.shape == (4, measuring.BLOCK - 1)
    assert (recorded == 1).all()
    assert (plain == 0).all()


def test_the_interval_is_of_the_ratio_and_covers_it():
    draws = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        machine = draws.lognormal(0, 0.3, (12, 1))
        plain, recorded = (machine * part * draws.lognormal(0, 0.05, (12, 5)) for part in (1, 1.04))
        low, high = measuring.more_interval(recorded, plain)
        inside += low <= 0.04 <= high
    assert 0.92 <= inside / 400 <= 0.98


def test_the_page_says_by_how_much_a_round_is_longer_and_whether_the_goal_is_kept():
    text = page(pd.DataFrame([ROW | ROUND, ROW | ROUND | {"recorded_round_s": 2.2, "most_more": 0.2}]))
    assert "| 1,000 | 8.0 | 30.0 / 20.0 | 10.0 / 8.0 | 10.0 / 8.0 | 1.5 / 1.2 |" in text
    assert "| 1,000 | 20 | 3 | 2.000 | 2.050 | 2.5 [1.0, 4.0] | 6.0 |" in text
    assert "kept in 1 of 2 rows, and in 1 by the whole interval" in text
    assert "Not measured" in page(pd.DataFrame([ROW]))
