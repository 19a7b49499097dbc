"""On which device a call's trainings and attacks run: a GPU that works here, one that its cluster has, or processors.

``device: auto`` is decided once, where a call starts, and in one line. The processes of its jobs inherit the answer
(``LEAKLAB_DEVICE``), so that a job for which a GPU was asked never turns to a processor in silence: it ends with one
line before it touches a file.
"""

import io
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leaklab.records.config import load_config
from leaklab.records.errors import UserError

DEVICE = "LEAKLAB_DEVICE"
"""What ``auto`` was found to mean, for the processes of a call's jobs."""
PROBE = "import torch; torch.ones(2, device='cuda').sum().item()"
"""Adds two numbers there: that a GPU is listed does not say that it, its driver and this torch work together."""
PROBE_SECONDS = 120
HARDWARE = (Path("/dev/nvidia0"), Path("/dev/kfd"), Path("/dev/dxg"))
"""What the drivers of NVIDIA, of AMD and of Windows' Linux make: without one nobody has to start torch to know."""
SINFO = ("sinfo", "--noheader", "--format=%P|%G|%a")
ANSWER_SECONDS = 20
NONE = "(null)"
FORCE = "device: cuda in config/config.yaml asks for GPUs"
EACH = "each training and attack asks for one"


@dataclass(frozen=True)
class Place:
    """Where a call's trainings and attacks run.

    Attributes:
        device: ``cpu`` or ``cuda``.
        partition: of a cluster, that has GPUs where its default one has none; empty where jobs need not name one.
        line: how it was decided, for the user; empty where the configuration says it.
    """

    device: str
    partition: str = ""
    line: str = ""

    @property
    def resources(self) -> dict[str, Any]:
        """What the rules that compute on the device ask a scheduler for."""
        if self.device == "cpu":
            return {"device": self.device, "gpu": 0}
        named = {"slurm_partition": self.partition} if self.partition else {}
        return {"device": self.device, "gpu": 1, **named}


@dataclass(frozen=True)
class Asked:
    """What a call asks Snakemake for, as far as it decides about devices.

    Attributes:
        executor: its name, e.g. ``slurm``; of a dry run, the one that it speaks of.
        partition: that the user named for all jobs; empty where none is.
        dry: whether nothing is to run.
    """

    executor: str = "local"
    partition: str = ""
    dry: bool = False

    @classmethod
    def of(cls, argv: Sequence[str]) -> "Asked":
        """Read the arguments of a call of Snakemake and the profiles that they name, as Snakemake reads them."""
        from snakemake.cli import parse_args

        try:
            with redirect_stderr(io.StringIO()):  # it has named the profiles to the user already
                _, found = parse_args(list(argv))
        except SystemExit:  # no call of the command, whose arguments Snakemake has understood already
            return cls()
        partition = (found.default_resources or {}).get("slurm_partition")
        named = (getattr(partition, "raw", "") or "").strip("'\"")
        return cls(found.executor or "local", named, bool(found.dryrun))


def place_of_call(wanted: str, asked: Asked) -> Place:
    """Decide where a call's trainings and attacks run, and tell the processes of its jobs.

    Args:
        wanted: ``device`` of the configuration: ``auto``, ``cpu`` or ``cuda``.
        asked: what the call asks for.
    """
    found = Place(wanted) if wanted != "auto" else _found(asked)
    os.environ[DEVICE] = found.device
    return found


def place_of_job(wanted: str) -> Place:
    """Return where a job runs, in its own process: as its call has decided, where that is known."""
    if wanted == "auto":
        wanted = os.environ.get(DEVICE) or device_here()
    return Place(wanted)


def device_wanted() -> str:
    """Return the device that the configuration of this checkout means here, ``cpu`` or ``cuda``."""
    return place_of_job(load_config().device).device


def device_here() -> str:
    """Return what ``auto`` means on this machine."""
    return "cuda" if any(path.exists() for path in HARDWARE) and not gpu_problem() else "cpu"


def _found(asked: Asked) -> Place:
    if asked.executor == "slurm":
        return _of_cluster(asked.partition)
    if asked.executor != "local":
        line = f"device auto: what a cluster of executor {asked.executor} has is not known here, so processors; {FORCE}"
        return Place("cpu", line=line)
    if device_here() == "cuda":
        return Place("cuda", line="device auto: a GPU works here, trainings and attacks run on it")
    present = next((path for path in HARDWARE if path.exists()), None)
    if present is None:
        return Place("cpu")
    why = _short(gpu_problem())
    return Place("cpu", line=f"device auto: {present} is here, but no GPU works ({why}), so processors")


def _of_cluster(partition: str) -> Place:
    """Ask Slurm once which partitions have GPUs, and take the user's, the default one or the first that has some."""
    try:
        asked = subprocess.run(SINFO, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Place("cpu", line=f"device auto: sinfo does not answer ({why_no_answer(error)}), so processors; {FORCE}")
    gpus, default = gpus_of_partitions(asked.stdout)
    wanted = next((name for name in (partition or default).split(",") if name in gpus), "")  # sites take several
    if wanted:
        return Place("cuda", line=f"device auto: partition {wanted} has GPUs ({gpus[wanted]}), {EACH}")
    if partition:
        return Place(
            "cpu", line=f"device auto: partition {partition}, which the profile names, has no GPUs, so processors"
        )
    if not gpus:
        return Place("cpu", line=f"device auto: sinfo knows no GPUs in this cluster, so processors; {FORCE}")
    first = next(iter(gpus))
    every = ", ".join(f"{name} ({kinds})" for name, kinds in gpus.items())
    return Place("cuda", first, f"device auto: partitions with GPUs: {every}; {EACH} in {first}")


def gpus_of_partitions(said: str) -> tuple[dict[str, str], str]:
    """Return partition -> its GPUs, of those that are up, in the order of ``sinfo``, and the default partition.

    Args:
        said: lines ``partition|generic resources|availability``; the default partition has a star.
    """
    found: dict[str, list[str]] = {}
    default = ""
    for line in said.splitlines():
        name, resources, available = (*line.strip().split("|"), "", "")[:3]
        default = name.removesuffix("*") if name.endswith("*") else default
        kinds = [one.partition("(")[0] for one in _resources(resources) if one.startswith("gpu")]
        if available == "up" and kinds:
            found.setdefault(name.removesuffix("*"), []).extend(kinds)
    return {name: ", ".join(dict.fromkeys(kinds)) for name, kinds in found.items()}, default


def _resources(text: str) -> Iterable[str]:
    """Split ``gpu:a100:4(S:0-1),shard:8``; commas also stand inside brackets."""
    depth, word = 0, ""
    for character in text if text != NONE else "":
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield word
            word = ""
        else:
            word += character
    if word:
        yield word


def why_no_answer(error: Exception) -> str:
    """Return why a command of Slurm's did not answer within ``ANSWER_SECONDS``, in its own words where it has some."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not within {ANSWER_SECONDS} s"
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr).strip().rpartition("\n")[2] or f"status {error.returncode}"
    return str(error)


@cache
def gpu_problem() -> str:
    """Return why no GPU works here, as torch says it; empty where one does.

    Another process asks, as Snakemake's own has no torch, and one that has asked for a GPU keeps memory on it.
    """
    try:
        asked = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it has not answered for {PROBE_SECONDS} s"
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
        f"device cuda: no GPU works on this machine ({_short(problem)}): set device: cpu in config/config.yaml, or run "
        "where nvidia-smi shows a GPU; no result was touched"
    )


def _short(problem: str) -> str:
    return problem.split(". ")[0].rstrip(".")


def device_of(job: Any) -> object:
    """Return the device that a job of Snakemake asks for; None where its rule knows none."""
    resources: Mapping[str, Any] = dict(job.resources.items())
    return resources.get("device")
