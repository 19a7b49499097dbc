"""Whether a GPU works on this machine: asked before a file of a job that needs one is touched."""

import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from leaklab.records.errors import UserError

# adds two numbers there: that a GPU is listed does not say that it, its driver and this torch work together
PROBE = "import torch; torch.ones(2, device='cuda').sum().item()"
SECONDS = 120


@cache
def gpu_problem() -> str:
    """Return why no GPU works here, as torch says it; empty where one does.

    Another process asks, as Snakemake's own has no torch, and one that has asked for a GPU keeps memory on it.
    """
    try:
        asked = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it has not answered for {SECONDS} s"
    except OSError as error:
        return str(error)
    if asked.returncode == 0:
        return ""
    said = [line for line in asked.stderr.splitlines() if line.strip()] or [f"status {asked.returncode}"]
    named = [line for line in said if line[:1].isalpha() and "Error: " in line]  # some go on after their first line
    return (named or said)[-1].partition("Error: ")[2] or said[-1]


def refuse_missing_gpu(devices: Iterable[object]) -> None:
    """Refuse jobs that ask for a GPU on a machine where none works; ``devices`` are those that they ask for.

    Raises:
        UserError: no GPU works here.
    """
    problem = gpu_problem() if "cuda" in devices else ""
    if problem:
        raise UserError(no_gpu(problem))


def no_gpu(problem: str) -> str:
    """Return the line for somebody who asked for a GPU where none works."""
    return (
        f"device cuda: no GPU works on this machine ({problem.split('. ')[0].rstrip('.')}): set device: cpu in "
        "config/config.yaml, or run where nvidia-smi shows a GPU; no result was touched"
    )


def device_of(job: Any) -> object:
    """Return the device that a job of Snakemake asks for; None where its rule knows none."""
    return dict(job.params.items()).get("device")
