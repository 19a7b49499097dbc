"""Seconds of an exchange beside those of the disk, and of the recorder's part in a round of Flower."""

import os
import statistics
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from leaklab.records.recording import record_update

SIZES = {"5e4": 50_890, "1e6": 987_210, "1.1e7": 11_025_610}
TENSORS, TIMES = 6, 7
APP = Path(__file__).with_name("app.py")
# without these, workers wait for everything else on the machine, and the run is reported
QUIET = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
WARM, BLOCK = 2, 6
"""As in ``app.py``, which needs Flower."""
CASES = (("5e4", 20, 30), ("1e6", 20, 20), ("1.1e7", 20, 8), ("1.1e7", 1, 12))
"""Size, local steps, pairs of blocks. Flower asks for messages every tenth of a second: short rounds differ by it."""
Row = dict[str, Any]
Rounds = NDArray[np.float64]


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


def flower(size: str, steps: int, pairs: int, python: str) -> Row:
    """Return seconds of rounds with and without the recorder, and of replies that wait; nothing without Flower."""
    if subprocess.run([python, "-c", "import flwr, ray"], capture_output=True, check=False).returncode:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        known = {**os.environ, **QUIET, "FLWR_HOME": f"{folder}/flwr"}
        subprocess.run([python, APP, size, folder, str(steps), str(pairs)], env=known, check=True, capture_output=True)
        rounds, waits = (
            [float(line) for line in (Path(folder) / name).read_text(encoding="utf-8").split()]
            for name in ("rounds", "recorder")
        )
        exchanges = len(list(Path(folder, "leaves").glob("exchange-*")))
    clients = len(waits) // len(rounds)
    of_round = [sum(waits[number * clients : (number + 1) * clients]) for number in range(len(rounds))]
    recorded, plain = blocks(rounds)
    waiting, _ = blocks(of_round)
    assert exchanges == clients * BLOCK * pairs
    low, high = more_interval(recorded, plain)
    return {
        "steps": steps,
        "rounds": recorded.size,
        "clients": clients,
        "plain_round_s": plain.mean(),
        "recorded_round_s": recorded.mean(),
        "least_more": low,
        "most_more": high,
        "waiting_s": float(np.median(waiting)),
    }


def blocks(values: Sequence[float]) -> tuple[Rounds, Rounds]:
    """Return the values of recorded and of plain rounds, [pairs, BLOCK - 1] each.

    The first round of each block is left out: what was recorded last may still be written in it.
    """
    paired = np.asarray(values[WARM:]).reshape(-1, 2, BLOCK)[:, :, 1:]
    return paired[:, 0], paired[:, 1]


def more_interval(recorded: Rounds, plain: Rounds) -> tuple[float, float]:
    """Return by which part of itself a round is longer, as a 95 % interval of Student's t over pairs of blocks."""
    ends = ttest_1samp(np.log(recorded.mean(1) / plain.mean(1)), 0).confidence_interval(0.95)
    return float(np.expm1(ends.low)), float(np.expm1(ends.high))
