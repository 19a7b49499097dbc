"""Parts of some work take turns, so that what the machine does besides falls on all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median


def in_turns(parts: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median processor seconds of each part over some turns."""
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(repeats):
        for name, part in parts.items():
            began = time.process_time()
            part()
            times[name].append(time.process_time() - began)
    return {name: median(own) for name, own in times.items()}
