"""Recorded exchanges, probed: with a case file of their client, with the truth and without."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
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
    found = dict(probes_of(exchanges, case, private, "6s", 0, progress=False))
    assert len(found) == 2
    for card in found.values():
        assert card.word == "read"
        assert card.data["exact"] == 2
        replayed = next(stage for stage in card.data["stages"] if stage["name"] == "replay")
        assert replayed["record"]["matches"]
        assert card.above(limits_of("exact=0"))


def test_without_the_truth_only_what_is_proven_is_said(folders: tuple[Path, Path, Path]) -> None:
    exchanges, case, _ = folders
    first = sorted(exchanges.glob("exchange-*"))[0]
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


def test_the_gate_tells_clipping_and_noise_from_none(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    exchanges, case, private = folders
    limits = limits_of("exact=0,gain=3")
    (_, plain), *_ = probes_of(exchanges, case, private, "6s", 0, progress=False)
    assert plain.above(limits)
    draws = torch.Generator().manual_seed(5)
    for path in sorted(exchanges.glob("exchange-*")):
        before, sent = load_file(path / "before.safetensors"), load_file(path / "sent.safetensors")
        moved = {name: sent[name] - before[name] for name in sent}
        length = torch.cat([value.flatten() for value in moved.values()]).norm()
        hidden = {
            name: before[name] + 0.1 * (value / length + torch.randn(value.shape, generator=draws))
            for name, value in moved.items()
        }
        leaklab.record_update(before, hidden, tmp_path / "hidden", round=int(path.name[-1]))
    for _, card in probes_of(tmp_path / "hidden", case, private, "6s", 0, progress=False):
        assert not card.above(limits)
        replayed = next(stage for stage in card.data["stages"] if stage["name"] == "replay")
        assert "noise" in " ".join(replayed["lines"])
