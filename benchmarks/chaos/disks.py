"""Disks that are full and folders that may not be written: small file systems mounted over the place of the outputs."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chaos.bench import Bench, Harm
from chaos.jobs import Job

# one file more than is said: the one that keeps the folder, since Snakemake tries to remove an empty one
FULL = {"no room for one file": "size=1m,nr_inodes=2", "no room for a second file": "size=1m,nr_inodes=3",
        "4 kB left": "size=4k", "16 kB left": "size=16k"}  # fmt: skip
KEEPER = ".kept"


def why_not(folder: Path) -> str:
    """Return why nothing can be mounted here; empty where it can."""
    if os.geteuid():
        return "mounting needs root"
    probe = folder / "probe"
    probe.mkdir(exist_ok=True)
    try:
        with mounted(probe, "size=4k"):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"nothing can be mounted here ({error})"


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mount an empty file system in memory over a folder."""
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only, for root as well."""
    _run("mount", "--bind", str(folder), str(folder))
    try:
        _run("mount", "-o", "remount,ro,bind", str(folder))
        yield
    finally:
        _run("umount", "--lazy", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def fill(bench: Bench, jobs: Sequence[Job], left: Mapping[Job, str]) -> Harm:
    """Run the command with a full disk in the place of each job's outputs; ``left``: job -> one of ``FULL``."""
    place_of = {job: (bench.folder / job.target).parent for job in jobs}
    # a folder below another one is full with it
    outer = {job: min(set(place.parents) & set(place_of.values()), default=place) for job, place in place_of.items()}
    with ExitStack() as stack:
        for place, how in {outer[job]: left[job] for job in jobs}.items():
            place.mkdir(parents=True, exist_ok=True)
            stack.enter_context(mounted(place, FULL[how]))
            (place / KEEPER).touch()
        said = bench.calls.plain([job.target for job in jobs])
        hit = [job for job in jobs if not bench.is_made(job)]
    how_of = {outer[job]: left[job] for job in jobs}
    return Harm({job: how_of[outer[job]] for job in hit}, [said])


def forbid(bench: Bench, job: Job) -> Harm:
    """Run the command with the place of a job's outputs read-only."""
    place = (bench.folder / job.target).parent
    place.mkdir(parents=True, exist_ok=True)
    with read_only(place):
        said = bench.calls.plain([job.target])
        hit = not bench.is_made(job)
    return Harm({job: "the folder of its outputs is read-only"} if hit else {}, [said])
