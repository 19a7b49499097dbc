"""The state of an interrupted sweep: one safetensors file that names the spec and the data it belongs to."""

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from leaklab.records.files import write_tensors

log = logging.getLogger("leaklab")
WEIGHT = "weights/"


@dataclass(frozen=True)
class State:
    """All that the next round depends on; random streams are named, so they need no state.

    Attributes:
        round: rounds done.
        weights: global weights of R replicates by name, [R, ...].
        diverged: replicates that were frozen, [R], bool.
        steps: optimiser steps done so far per client, [R], int64.
        rows: the finished rows of the sweep's table.
    """

    round: int
    weights: dict[str, Tensor]
    diverged: Tensor
    steps: Tensor
    rows: list[dict[str, Any]]


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Return a digest of the tensors' shapes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def save(path: Path, state: State, identity: dict[str, str]) -> None:
    """Write ``state`` atomically.

    Args:
        path: the file.
        state: what to go on from.
        identity: what the state belongs to (``spec``: canonical JSON, ``data``: fingerprint).
    """
    tensors = {WEIGHT + name: value for name, value in state.weights.items()}
    tensors |= {"diverged": state.diverged, "steps": state.steps}
    write_tensors(path, tensors, {**identity, "round": str(state.round), "rows": json.dumps(state.rows)})


def resume(path: Path | None, identity: dict[str, str], device: torch.device) -> State | None:
    """Return the saved state, or None (with a line in the log) if the file is damaged or belongs to something else."""
    if path is None or not path.exists():
        return None
    try:
        state, found = _read(path)
    except (SafetensorError, KeyError, ValueError) as error:
        log.warning("%s is damaged (%s): training starts over", path, error)
        return None
    differing = [name for name, value in identity.items() if found.get(name) != value]
    if differing:
        log.warning("%s belongs to another run (other %s): training starts over", path, " and ".join(differing))
        return None
    log.info("going on from round %d (%s)", state.round, path)
    moved = {name: value.to(device) for name, value in state.weights.items()}
    return State(state.round, moved, state.diverged.to(device), state.steps.to(device), state.rows)


def _read(path: Path) -> tuple[State, dict[str, str]]:
    with safe_open(path, framework="pt") as handle:
        metadata = dict(handle.metadata() or {})
        tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118 - not a dict
    weights = {name.removeprefix(WEIGHT): value for name, value in tensors.items() if name.startswith(WEIGHT)}
    state = State(int(metadata["round"]), weights, tensors["diverged"], tensors["steps"], json.loads(metadata["rows"]))
    return state, metadata
