"""Why a curve is worse than linear: what its job calls more often, and what of it takes longer each time."""

import cProfile
import pstats
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from growth.measuring import done, in_a_fork
from leaklab.specs.base import Spec

SHOWN = 6
"""Functions, those with most seconds of their own at the largest point."""
PACKAGE = "leaklab"


def compared(smaller: Spec, larger: Spec) -> Iterator[dict[str, object]]:
    """Yield a line for each function that takes most of the larger job, with what it took of the smaller one."""
    few, many = (in_a_fork(partial(_profile, spec)) for spec in (smaller, larger))
    whole = sum(seconds for _, seconds in many.values())
    for name, (calls, seconds) in sorted(many.items(), key=lambda one: -one[1][1])[:SHOWN]:
        before, took = few.get(name, (0, 0.0))
        yield {
            "function": name, "share": seconds / whole, "calls_before": before, "calls": calls,
            "milliseconds_before": 1e3 * took / before if before else 0.0, "milliseconds": 1e3 * seconds / calls,
        }  # fmt: skip


def _profile(spec: Spec) -> dict[str, tuple[int, float]]:
    """Return function -> how often it was called, and its own seconds with those of what is not ours."""
    torch.set_num_threads(1)
    profile = cProfile.Profile(time.process_time)  # others compute beside it
    profile.enable()
    done(spec)
    profile.disable()
    found: dict[str, list[float]] = {}
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, function), (_, calls, own, _, callers) in stats.items():
        if _ours(file):
            entry = found.setdefault(_name(file, function), [0, 0.0])
            entry[0] += calls
            entry[1] += own
            continue
        # what libraries take belongs to those of our functions that called them
        for (caller, _, name), (_, _, _, spent) in callers.items():
            if _ours(caller):
                found.setdefault(_name(caller, name), [0, 0.0])[1] += spent
    return {name: (int(calls), seconds) for name, (calls, seconds) in found.items() if calls and not _imports(name)}


def _imports(name: str) -> bool:
    """Tell whether a function is part of the constant: what is imported once."""
    return name.endswith(("::<module>", "plugins.py::imported"))


def _ours(file: str) -> bool:
    return f"/{PACKAGE}/" in file


def _name(file: str, function: str) -> str:
    return f"{Path(file.rsplit(f'/{PACKAGE}/', 1)[1]).as_posix()}::{function}"
