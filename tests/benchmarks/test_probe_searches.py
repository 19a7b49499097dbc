"""The benchmark of searches: its controls hold nothing of the sample, and its page says what its tables say."""

import pandas as pd
import torch
from probe_searches.cases import WORKLOADS, case_of
from probe_searches.page import NUMBERS, page


def test_controls_send_what_other_samples_or_nobody_make() -> None:
    controls = {one.control: case_of(one) for one in WORKLOADS if one.control}
    case = controls["another"]
    own = case.client.round(case.inputs, case.targets)
    assert not any(torch.equal(own.sent[name], one) for name, one in case.exchange.sent.items())
    assert not any(bool(one.any()) for one in controls["zero"].exchange.sent.values())
    assert len({one.title for one in WORKLOADS}) == len(WORKLOADS)


def test_the_page_counts_controls_and_keeps_refusals() -> None:
    row = {"attacker": "ig", "db": 30.0, "guess": 13.0, "gain": 17.0, "read": 1.0, "samples": 1.0, "labels": "1 of 1"}
    row |= {"unexplained": 0.01, "evaluations": 7.0, "seconds": 0.5, "complete": False}
    control = {**row, "model": "control: another", "read": 0.0, "gain": -3.21}
    table = pd.DataFrame([{**row, "model": "MLP"}, control, {"model": "control: zero", "refused": "nothing to match"}])
    told = {"model": "MLP", "candidates": 100, "true": 8, "hits": 8, "chance": 0.64, "p": 5e-12, "seconds": 1.0}
    told |= {f"{by}_{end}": 0.5 for by in NUMBERS for end in ("auc", "low", "high")}
    said = page(table, pd.DataFrame([told]), ["noise: read at all."])
    assert "0 of 1 readings of updates that hold nothing" in said
    assert "the largest gain is -3.2 dB" in said
    assert "* control: zero: nothing to match." in said
    assert "* noise: read at all." in said
    assert "0.50 (0.50 to 0.50)" in said
