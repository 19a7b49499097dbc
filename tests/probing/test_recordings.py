"""Recorded exchanges, probed: with a case file of their client, with the truth and without."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import leaklab
from leaklab.probing.case_file import read_case
from leaklab.probing.commands import limits_of
from leaklab.probing.recordings import probes_of
from leaklab.records.errors import UserError

CASE = """
import torch
from torch import nn
import leaklab

torch.manual_seed(1)
client = leaklab.Client(nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 3)), rate=0.5)
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return two rounds of one client recorded by a plain loop, its case file, and its truth."""
    case = tmp_path / "case.py"
    case.write_text(CASE, encoding="utf-8")
    model = deepcopy(read_case(case).client.model)
    torch.manual_seed(2)
    for number in range(2):
        inputs, targets = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
        before = {name: value.clone() for name, value in model.state_dict().items()}
        F.cross_entropy(model(inputs), targets).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.5 * parameter.grad  # type: ignore[operator]
                parameter.grad = None
        leaklab.record_update(before, model.state_dict(), tmp_path / "exchanges", round=number)
        leaklab.record_truth(tmp_path / "private", inputs, targets, round=number)
    return tmp_path / "exchanges", case, tmp_path / "private"


def test_every_exchange_is_replayed_and_read(folders: tuple[Path, Path, Path]) -> None:
    exchanges, case, private = folders
    found = dict(probes_of(exchanges, case, private, "30s", 0, progress=False))
    assert len(found) == 2
    for card in found.values():
        assert card.word == "read"
        assert card.data["exact"] == 2
        replayed = next(stage for stage in card.data["stages"] if stage["name"] == "replay")
        assert replayed["record"]["matches"]
        assert card.above(limits_of("exact=0"))


def test_without_the_truth_only_what_is_proven_is_said(folders: tuple[Path, Path, Path]) -> None:
    exchanges, case, _ = folders
    first = sorted(path for path in exchanges.iterdir())[0]
    for _, card in probes_of(first, case, None, "20s", 0, progress=False):
        assert card.data["samples"] is None
        assert card.word in ("read", "undecided")
        assert (card.word == "read") == (card.data["exact"] > 0)


def test_slips_are_one_line(folders: tuple[Path, Path, Path]) -> None:
    exchanges, case, private = folders
    with pytest.raises(UserError, match="--client FILE"):
        list(probes_of(exchanges, None, None, "5s", 0, progress=False))
    with pytest.raises(UserError, match="is no folder"):
        list(probes_of(case, case, None, "5s", 0, progress=False))
    (exchanges / "exchange-000000" / "sent.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"sent\.safetensors"):
        list(probes_of(exchanges, case, private, "5s", 0, progress=False))
