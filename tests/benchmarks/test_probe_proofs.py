"""The benchmark of proofs: near-misses of every kind give no false certificate, and a page says what came of them."""

import torch
from probe_proofs.__main__ import read
from probe_proofs.kinds import kinds
from probe_proofs.misses import MISSES, closeness, tried
from probe_proofs.page import page

from leaklab.probing.algebra.proofs import Proofs
from leaklab.probing.case import Case
from leaklab.probing.reading import Reading


def test_a_false_certificate_is_seen() -> None:
    kind = kinds()["MLP, 1 sample"]()
    case = Case(kind.client, kind.client.round(kind.inputs, kind.targets), kind.inputs, kind.targets)
    wrong = Proofs((Reading("ratio", "input", kind.inputs[0] + 0.1, True), Reading("ratio", "1", kind.inputs[0], True)))
    assert 17 < closeness(case, wrong, 0) < 21
    assert closeness(case, wrong, 1) == 300


def test_near_misses_give_no_false_certificate_and_the_page_counts_them() -> None:
    torch.set_num_threads(1)
    names = ["2x2 mean in the network", "noise in one tensor", "two samples nearly the same, told as one"]
    tries = [tried(list(MISSES).index(name) + len(MISSES) * turn) for name in names for turn in range(2)]
    assert not any(one.false for one in tries)
    assert any(one.layers for one in tries)
    row = read("table, squared error, 1 sample", kinds()["table, squared error, 1 sample"]())
    assert (row.proven, row.false, row.read) == (1, 0, "1 by ratio of input")
    text = page([row], tries)
    assert "| table, squared error, 1 sample | 1 |" in text
    assert f"0 of {sum(one.proven for one in tries)} certificates are false" in text
