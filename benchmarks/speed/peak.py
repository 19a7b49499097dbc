"""What one thread of this processor can do at most: matrix product and convolution, in GFLOP/s of processor time."""

import json
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from speed.costs import one_thread

SIDE, WINDOWS, WINDOW_SECONDS = 1024, 5, 0.2


def best_rate(operation: Callable[[], object], flop: float) -> float:
    """Return the largest GFLOP/s over some windows."""
    operation()
    rates = []
    for _ in range(WINDOWS):
        started, calls = time.process_time(), 0
        while time.process_time() - started < WINDOW_SECONDS:
            operation()
            calls += 1
        rates.append(calls * flop / (time.process_time() - started) / 1e9)
    return max(rates)


def main() -> None:
    """Print both rates as one line of JSON."""
    one_thread()
    print(json.dumps(peaks()))


@torch.no_grad()
def peaks() -> dict[str, float]:
    """Return the best rates of this thread in GFLOP/s: ``sgemm`` and ``convolution``."""
    square = torch.ones(SIDE, SIDE)
    batch, channels, size = 32, 64, 28
    images = torch.ones(batch, channels, size, size).to(memory_format=torch.channels_last)
    kernels = torch.ones(channels, channels, 3, 3).to(memory_format=torch.channels_last)
    return {
        "sgemm": best_rate(lambda: square @ square, 2.0 * SIDE**3),
        "convolution": best_rate(
            lambda: F.conv2d(images, kernels, padding="valid"), 2.0 * batch * (size - 2) ** 2 * 9 * channels**2
        ),
    }


if __name__ == "__main__":
    main()
