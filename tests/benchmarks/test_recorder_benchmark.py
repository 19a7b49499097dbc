"""The recorder's benchmark: it times what it says, and the page computes what it shows."""

import pandas as pd
from recorder import measuring
from recorder.page import page

ROW = {"parameters": 1000, "megabytes": 8.0, "exchange_s": 0.03, "write_s": 0.01, "sum_s": 0.01,
       "least_exchange_s": 0.02, "least_write_s": 0.008, "least_sum_s": 0.008}  # fmt: skip
ROUND = {"rounds": 3, "clients": 2, "plain_round_s": 2.0, "recorded_round_s": 2.05, "waiting_s": 0.006,
         "least_plain_round_s": 1.0, "least_recorded_round_s": 1.04, "least_waiting_s": 0.004}  # fmt: skip


def test_an_exchange_is_timed_with_its_bytes(monkeypatch):
    monkeypatch.setattr(measuring, "SIZES", {"tiny": 600})
    monkeypatch.setattr(measuring.os, "sync", lambda: None)
    row = measuring.exchange("tiny")
    assert row["megabytes"] == 600 * 2 * 4 / 1e6
    assert min(row["exchange_s"], row["write_s"], row["sum_s"]) > 0


def test_the_page_says_by_how_much_a_round_is_longer_and_whether_the_goal_is_kept():
    text = page(pd.DataFrame([ROW | ROUND, ROW | ROUND | {"recorded_round_s": 2.2}]))
    assert "| 1,000 | 8.0 | 30.0 / 20.0 | 10.0 / 8.0 | 10.0 / 8.0 | 1.5 / 1.2 |" in text
    assert "| 1,000 | 3 | 2.00 / 1.00 | 2.05 / 1.04 | 2.5 / 4.0 | 6.0 / 4.0 |" in text
    assert "kept at 1 of 2 sizes by medians, and at 2 by the least" in text
    assert "Not measured" in page(pd.DataFrame([ROW]))
