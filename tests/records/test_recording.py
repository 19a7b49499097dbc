"""What the recorder leaves on disk, and that it never breaks the training that it sits in."""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from leaklab.records import exchanges, recording
from leaklab.records.errors import UserError
from leaklab.records.exchanges import Bounds
from leaklab.records.recording import record_truth, record_update

GIVEN = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.zeros(2)}
SENT = {name: value - 0.5 for name, value in GIVEN.items()}


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(recording, "_said", set())
    monkeypatch.delenv("LEAKLAB_RECORD", raising=False)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_an_exchange_is_two_files_of_tensors_and_one_of_facts(tmp_path):
    path = record_update(GIVEN, SENT, tmp_path / "new", node=7, round=2, config={"lr": np.float32(0.5)}, site="north")
    assert path == tmp_path / "new/exchange-000000"
    manifest = json.loads((path / "exchange.json").read_text())
    assert manifest["schema"] == "leaklab-exchange/1"
    assert (manifest["node"], manifest["round"], manifest["config"]) == ("7", 2, {"lr": 0.5})
    assert (manifest["kind"], manifest["facts"]) == ("weights", {"site": "north"})
    assert manifest["names"]["sent.safetensors"] == ["weight", "bias"]
    for file, tensors in (("before", GIVEN), ("sent", SENT)):
        found = load_file(path / f"{file}.safetensors")
        assert set(found) == set(tensors)
        assert all(torch.equal(found[name], value) for name, value in tensors.items())
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0  # an update gives data away


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_every_type_of_a_state_comes_back_to_the_byte(kind, tmp_path):
    value = torch.arange(12).reshape(3, 4).to(getattr(torch, kind))
    held = {
        "plain": value,
        "turned": value.T,
        "tied": value,
        "single": value[0, 1],
        "none": value[:0],
        "odd": value[0, :3],
    }
    found = load_file(record_update(held, {"plain": value + value}, tmp_path) / "before.safetensors")
    assert all(torch.equal(found[name], one) for name, one in held.items())
    if kind != "bfloat16":
        arrays = {name: one.numpy() for name, one in held.items()}
        found = load_file(record_update(arrays, {}, tmp_path) / "before.safetensors")
        assert all(torch.equal(found[name], one) for name, one in held.items())


def test_it_is_off_until_somebody_asks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert record_update(GIVEN, SENT) is None
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("LEAKLAB_RECORD", "there")
    assert record_update(GIVEN, SENT) == tmp_path / "there/exchange-000000"
    assert record_update(GIVEN, SENT, "here") == tmp_path / "here/exchange-000000"


def test_every_nth_round_until_the_limit_and_the_oldest_stay(tmp_path, caplog):
    for number in range(9):
        record_update(GIVEN, SENT, tmp_path, round=number, every=2, limit=3)
    kept = [json.loads((tmp_path / name / "exchange.json").read_text())["round"] for name in names(tmp_path)]
    assert kept == [0, 2, 4]
    assert caplog.text.count("reached its limit") == 1


def test_bytes_are_bounded_too(tmp_path):
    big = {"weight": torch.zeros(2500)}
    for _ in range(9):
        record_update(big, {"weight": torch.ones(2500)}, tmp_path, limit="70 KB")
    size = sum(file.stat().st_size for file in tmp_path.glob("exchange-*/*"))
    assert 60_000 < size <= 70_000


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": "many"}, {"limit": "0 GB"}, {"limit": True}, {"every": 0},
                                   {"kind": "update"}])  # fmt: skip
def test_a_setting_that_means_nothing_is_refused(wrong, tmp_path):
    with pytest.raises(UserError, match=next(iter(wrong))):
        record_update(GIVEN, SENT, tmp_path, **wrong)
    assert Bounds.of(1, "1.5 GB").size == 1_500_000_000


def test_many_at_once_lose_nothing_and_share_a_limit(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: record_update(GIVEN, SENT, tmp_path, node=n, limit=40), range(60)))
    assert len({path for path in made if path}) == len(names(tmp_path)) == 40
    assert all((tmp_path / name / "exchange.json").is_file() for name in names(tmp_path))


WRITER = """
import sys, numpy as np
from leaklab.records.recording import record_update
given, sent = {"w": np.zeros(2_000_000)}, {"w": np.ones(2_000_000)}
print("ready", flush=True)
while True:
    record_update(given, sent, sys.argv[1], node=sys.argv[2])
"""


def test_processes_that_are_killed_leave_whole_exchanges_only(tmp_path):
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, str(n)], stdout=subprocess.PIPE) for n in range(2)
    ]
    for process in running:
        process.stdout.readline()
    until = time.monotonic() + 20
    while len(names(tmp_path)) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    whole = [name for name in names(tmp_path) if exchanges.FINISHED.fullmatch(name)]
    assert len(whole) >= 2
    for name in whole:
        manifest = json.loads((tmp_path / name / "exchange.json").read_text())
        assert {file: exchanges.checksum(tmp_path / name / file) for file in manifest["files"]} == manifest["files"]


def test_a_file_that_cannot_grow_leaves_nothing_half(tmp_path, caplog):
    """A limit on the size of files fails as a full disk does, in the middle of a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = {"weight": torch.zeros(100_000)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        assert record_update(big, {"weight": torch.ones(100_000)}, tmp_path) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(tmp_path) == []
    assert "File too large; the training goes on" in caplog.text
    assert record_update(big, {"weight": torch.ones(100_000)}, tmp_path).name == "exchange-000000"


def test_a_full_disk_is_one_line_and_the_training_goes_on(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, os.strerror(28), "a name that differs")

    monkeypatch.setattr(exchanges, "_written", full)
    assert [record_update(GIVEN, SENT, tmp_path, round=number) for number in range(3)] == [None] * 3
    assert names(tmp_path) == []
    (line,) = caplog.records
    assert (line.levelno, line.getMessage().count("\n")) == (logging.WARNING, 0)
    assert "No space left on device; the training goes on" in line.getMessage()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (GIVEN, GIVEN, "copy the state before the client trains"),
        ([GIVEN["bias"].numpy()], [GIVEN["bias"].numpy()], "copy the state"),
        (GIVEN, {"weight": np.array(["a"])}, "tensor 'weight' is of type <U1"),
        (None, SENT, "NoneType"),
    ],
)  # fmt: skip
def test_what_cannot_be_recorded_is_a_line(before, after, said, tmp_path, caplog):
    assert record_update(before, after, tmp_path) is None
    assert said in caplog.text


def test_values_that_hold_data_are_left_out_of_the_facts(tmp_path):
    facts = {"config": {"raw": b"1234", "image": torch.ones(3), "list": [1, np.ones(2)], "path": tmp_path}}
    manifest = json.loads((record_update(GIVEN, SENT, tmp_path, **facts) / "exchange.json").read_text())
    left = manifest["config"]
    assert left == {
        "raw": "<4 bytes>",
        "image": "<Tensor>",
        "list": [1, "<ndarray>"],
        "path": f"<{type(tmp_path).__name__}>",
    }


def test_truth_is_for_its_owner_alone_and_never_beside_exchanges(tmp_path, monkeypatch, caplog):
    inputs, targets = torch.ones(2, 3), torch.tensor([0, 1])
    file = record_truth(tmp_path / "private", inputs, targets, node=1, round=0)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert torch.equal(load_file(file)["inputs"], inputs)
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(UserError, match=r"mode 0755.*chmod 700"):
        record_truth(tmp_path / "open", inputs, targets)
    record_update(GIVEN, SENT, tmp_path / "seen")
    (tmp_path / "link").symlink_to(tmp_path / "seen")
    for inside in (tmp_path / "seen", tmp_path / "seen/deep/er", tmp_path / "link/private"):
        with pytest.raises(UserError, match="private truth needs a folder beside it"):
            record_truth(inside, inputs, targets)
    monkeypatch.setenv("LEAKLAB_RECORD", str(tmp_path / "not yet"))
    with pytest.raises(UserError, match="in the folder of exchanges"):
        record_truth(tmp_path / "not yet/private", inputs, targets)
    for wrong in (tmp_path / "private", tmp_path / "private/seen", tmp_path):
        assert record_update(GIVEN, SENT, wrong) is None
    assert "holds private truth" in caplog.text
    assert not (tmp_path / "exchange-000000").exists()
