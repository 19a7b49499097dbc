"""The machine in one line, without its name and without a date."""

import os
import platform
from pathlib import Path

import torch


def description() -> str:
    """Return processor, usable cores, Python and torch."""
    cores = len(os.sched_getaffinity(0))
    usable = f"{cores} {'core' if cores == 1 else 'cores'}"
    return f"{_processor()}, {usable}, Python {platform.python_version()}, torch {torch.__version__}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    for line in information.read_text("utf-8").splitlines() if information.is_file() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
