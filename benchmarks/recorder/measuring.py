"""Seconds of an exchange beside those of the disk, and of the recorder's part in a round of Flower."""

import os
import statistics
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from leaklab.records.recording import record_update

SIZES = {"5e4": 50_890, "1e6": 987_210, "1.1e7": 11_025_610}
TENSORS, TIMES = 6, 7
APP = Path(__file__).with_name("app.py")
# without these, workers wait for everything else on the machine, and the run is reported
QUIET = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
Row = dict[str, Any]


def exchange(size: str) -> Row:
    """Return the median seconds that one exchange takes, its bytes only to be written, and only to be summed."""
    share = SIZES[size] // TENSORS
    before = {str(number): torch.rand(share) for number in range(TENSORS)}
    after = {name: value + 1 for name, value in before.items()}
    content = [value.numpy().tobytes() for value in (*before.values(), *after.values())]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kept: list[float] = []
        disk: list[float] = []
        sums: list[float] = []

        def written() -> None:
            # kept as exchanges are: the memory of a file that is gone is taken again at once, which costs less
            with (folder / f"plain-{len(disk)}").open("wb", buffering=0) as file:
                for piece in content:
                    file.write(piece)

        def summed() -> None:
            total = 0
            for piece in content:
                total = zlib.crc32(piece, total)

        # in turns, so that what else the machine does falls on all three alike
        for _ in range(TIMES):
            kept.append(seconds(lambda: record_update(before, after, folder / "leaves")))
            disk.append(seconds(written))
            sums.append(seconds(summed))
        assert len(list((folder / "leaves").glob("exchange-*"))) == TIMES
    return {
        "parameters": SIZES[size],
        "megabytes": sum(map(len, content)) / 1e6,
        "exchange_s": statistics.median(kept),
        "least_exchange_s": min(kept),
        "write_s": statistics.median(disk),
        "least_write_s": min(disk),
        "sum_s": statistics.median(sums),
        "least_sum_s": min(sums),
    }


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes, after what earlier calls wrote is on the disk."""
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def flower(size: str, python: str) -> Row:
    """Return seconds of rounds with and without the recorder, and of replies that wait; nothing without Flower."""
    if subprocess.run([python, "-c", "import flwr, ray"], capture_output=True, check=False).returncode:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        known = {**os.environ, **QUIET, "FLWR_HOME": f"{folder}/flwr"}
        subprocess.run([python, APP, size, folder], env=known, check=True, capture_output=True)
        rounds, waits = (
            [float(line) for line in (Path(folder) / name).read_text(encoding="utf-8").split()]
            for name in ("rounds", "recorder")
        )
        exchanges = len(list(Path(folder, "leaves").glob("exchange-*")))
    clients = len(waits) // len(rounds)
    of_round = [sum(waits[number * clients : (number + 1) * clients]) for number in range(len(rounds))]
    # every second round is recorded, from the first on; in the first two, workers start
    recorded, plain = rounds[2::2], rounds[3::2]
    assert exchanges == clients * (len(recorded) + 1)
    return {
        "rounds": len(recorded),
        "clients": clients,
        "plain_round_s": statistics.median(plain),
        "recorded_round_s": statistics.median(recorded),
        "waiting_s": statistics.median(of_round[2::2]),
        "least_plain_round_s": min(plain),
        "least_recorded_round_s": min(recorded),
        "least_waiting_s": min(of_round[2::2]),
    }
