"""What a sweep leaves: at its end, where it stopped early, and where it was interrupted.

The state of an interrupted one is a safetensors file that names the spec and the data it belongs to. The file before
the last one is kept too. A file that was cut short or altered is refused by its digest, with its name, and training
goes on from the one before.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_table, read_tensors, sha256, write_tensors

if TYPE_CHECKING:  # who captures from a training needs no tables
    import pandas as pd

    from leaklab.federated.rounds import Sent

log = logging.getLogger("leaklab")
SERVER, CLIENTS, NOTED, DIGEST = "weights/", "clients/", "noted/", "digest"
DIVERGED = "sweep/diverged"
"""Beside the weights of a sweep of which a replicate diverged: the rounds that each had done by then, else -1, [R]."""
SENT, SENT_BY = "sent/", "sweep/sent_by"
"""Before names in a run's weights: what clients sent in its last round, [R, C, ...]; and whether each did, [R, C]."""
VECTORS = ("diverged", "reached", "steps")


@dataclass(frozen=True)
class State:
    """All that the next round depends on; random streams are named, so they need no state.

    Attributes:
        round: rounds done.
        server: what the servers of R replicates hold by name, [R, ...]; under federated averaging global weights and
            running statistics.
        clients: what each of N clients keeps from round to round by name, [R, N, ...]; empty under federated averaging.
        diverged: replicates that were frozen, [R], bool.
        reached: replicates that stopped at the spec's goal, [R], bool.
        steps: optimiser steps done so far per client, [R], int64.
        rows: the finished rows of the sweep's table.
        noted: what was noted of the last round by name, [R, ...]; empty where nothing is followed (``notes.py``).
    """

    round: int
    server: dict[str, Tensor]
    clients: dict[str, Tensor]
    diverged: Tensor
    reached: Tensor
    steps: Tensor
    rows: list[dict[str, Any]]
    noted: dict[str, Tensor] = field(default_factory=dict)

    @property
    def running(self) -> Tensor:
        """Which replicates still train, [R]."""
        return ~(self.diverged | self.reached)

    def to(self, device: torch.device) -> "State":
        """Return the same state on a device."""
        vectors = {name: getattr(self, name).to(device) for name in VECTORS}
        parts = (self.server, self.clients, self.noted)
        server, clients, noted = ({name: value.to(device) for name, value in part.items()} for part in parts)
        return replace(self, server=server, clients=clients, noted=noted, **vectors)


@dataclass(frozen=True)
class Stopped:
    """What a training left that stopped earlier: the results of its run, from which a longer one goes on.

    Attributes:
        round: rounds done.
        server, clients: as of a ``State``.
        diverged_after: see ``DIVERGED``; empty where none did.
        rows: of the sweep's table; those of its last round are there because it stopped.
    """

    round: int
    server: dict[str, Tensor]
    clients: dict[str, Tensor]
    diverged_after: Tensor
    rows: list[dict[str, Any]]

    @classmethod
    def read(cls, weights: Mapping[str, Tensor], rows: list[dict[str, Any]]) -> "Stopped":
        """Return it from the outputs ``weights`` and ``sweep`` of a run."""
        # copies begin where torch's own tensors begin, see ``_read``
        held = {name: value.clone() for name, value in weights.items()}
        diverged_after = held.pop(DIVERGED, torch.empty(0))
        clients = below(CLIENTS, held)
        return cls(max(int(row["round"]) for row in rows), of_server(held), clients, diverged_after, rows)

    @classmethod
    def of_files(cls, paths: Sequence[Path]) -> "Stopped | None":
        """Return it from the files of a run, for which the record beside them vouches; None of no files.

        Raises:
            UserError: a file is not what its record says.
        """
        if not paths:
            return None
        files = {path.name: path for path in paths}
        for path in paths:
            if sha256(path) != read_json(path.with_name("run.json"))["outputs"].get(str(path)):
                raise UserError(f"{path} is not what its record says: delete {path.parent} and run snakemake again")
        rows = read_table(files["sweep.parquet"]).to_dict("records")
        weights = read_tensors(files["weights.safetensors"])
        return cls.read(weights, [{str(key): value for key, value in row.items()} for row in rows])

    def state(self, steps: int, due: bool) -> State:
        """Return the state that the longer training has after as many rounds.

        Args:
            steps: of a client in a round.
            due: whether the longer training tests after these rounds too. Where it does not, the last tests are taken
                back: their rows, and that a loss which was not finite there froze a replicate.
        """
        last = {int(row["replicate"]): int(row["steps"]) for row in self.rows}
        done = torch.tensor([last[replicate] for replicate in range(len(last))])
        diverged = self.diverged_after >= 0 if len(self.diverged_after) else torch.zeros(len(last), dtype=torch.bool)
        if not due:
            diverged = diverged & (done < self.round * steps)
        return State(
            round=self.round,
            server=self.server,
            clients=self.clients,
            diverged=diverged,
            reached=torch.zeros(len(last), dtype=torch.bool),
            steps=done,
            rows=[row for row in self.rows if due or row["round"] < self.round],
        )


@dataclass(frozen=True)
class Sweep:
    """The result of a training job.

    Attributes:
        table: one row per replicate and evaluated round: replicate, seed, rate_0 ... (as in the spec), round (rounds
            done), accuracy (percent) and loss on every part that the spec evaluates (test_accuracy, train_loss,
            own_before_accuracy ...), what it watches (local_loss, extractor_change), epsilon (what was spent by then,
            where the defense has an accountant), diverged, reached (with a goal), steps (of a client so far), and of
            models with a frozen part backbone_checksum_changed (0 or 1, at the end); its last row reached the goal or
            is the last.
        weights: what the servers hold at the end by name, [R, ...]: global weights and running statistics.
        clients: what the clients keep at the end by name, [R, N, ...]; empty under federated averaging.
        sent: the messages of the last round that the spec asks for; None where it asks for none.
        diverged: number of replicates that were frozen at their last finite weights.
        diverged_after: rounds that each had done by then, [R]; -1 for the others.
        clipped_clients: clients for whom the defense cut a value.
        client_steps: optimiser steps of all clients that this call executed; training_seconds: their wall time.
    """

    table: "pd.DataFrame"
    weights: dict[str, Tensor]
    clients: dict[str, Tensor]
    sent: "Sent | None"
    diverged: int
    diverged_after: Tensor
    clipped_clients: int
    client_steps: int
    training_seconds: float

    def left(self) -> dict[str, Tensor]:
        """Return all tensors that the run leaves, by the names that readers of its weights know."""
        kept = {CLIENTS + name: value for name, value in self.clients.items()}
        if self.diverged:
            kept[DIVERGED] = self.diverged_after
        if self.sent:
            kept |= {SENT + name: value.cpu() for name, value in self.sent.messages.items()}
            kept[SENT_BY] = self.sent.by
        return {**self.weights, **kept}


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Return a digest of the tensors' shapes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def save(path: Path, state: State, identity: dict[str, str]) -> None:
    """Write ``state`` atomically; what the file held before is kept beside it.

    Args:
        path: the file.
        state: what to go on from.
        identity: what the state belongs to (``spec``: canonical JSON, ``data``: fingerprint).
    """
    tensors = {SERVER + name: value for name, value in state.server.items()}
    tensors |= {CLIENTS + name: value for name, value in state.clients.items()}
    tensors |= {NOTED + name: value for name, value in state.noted.items()}
    tensors |= {name: getattr(state, name) for name in VECTORS}
    facts = {**identity, "round": str(state.round), "rows": json.dumps(state.rows)}
    fresh = _fresh(path)
    write_tensors(fresh, tensors, {**facts, DIGEST: _digest(tensors, facts)})
    if path.exists():
        path.replace(before(path))
    fresh.replace(path)


def resume(path: Path | None, identity: dict[str, str], device: torch.device) -> State | None:
    """Return the newest saved state that is sound and belongs here, or None; what is refused is named in the log."""
    for file in () if path is None else (path, before(path)):
        state = _refusing_damage(file, identity) if file.exists() else None
        if state is not None:
            log.info("going on from round %d (%s)", state.round, file)
            return state.to(device)
    return None


def discard(path: Path) -> None:
    """Remove the files of a finished sweep, and what killed jobs left half-written."""
    for file in (path, before(path), _fresh(path), *path.parent.glob(f".{path.stem}*.part*")):
        file.unlink(missing_ok=True)


def before(path: Path) -> Path:
    """Return where the checkpoint before the last one is kept."""
    return path.with_suffix(".before.safetensors")


def _fresh(path: Path) -> Path:
    return path.with_suffix(".new.safetensors")


def _refusing_damage(file: Path, identity: dict[str, str]) -> State | None:
    try:
        state, found = _read(file)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        log.warning("%s is damaged (%s): it is removed, not used", file, error)
        file.unlink(missing_ok=True)  # or the next save would put it in the place of the sound one before
        return None
    differing = [name for name, value in identity.items() if found.get(name) != value]
    if differing:
        log.warning("%s belongs to another run (other %s): it is not used", file, " and ".join(differing))
        return None
    return state


def _read(path: Path) -> tuple[State, dict[str, str]]:
    with safe_open(path, framework="pt") as handle:
        metadata = dict(handle.metadata() or {})
        # a copy begins where torch's own tensors begin: products round by where their factors lie in memory
        tensors = {name: handle.get_tensor(name).clone() for name in handle.keys()}  # noqa: SIM118 - not a dict
    if metadata.pop(DIGEST) != _digest(tensors, metadata):
        raise ValueError("its content does not match its digest")
    server, clients, noted = (below(prefix, tensors) for prefix in (SERVER, CLIENTS, NOTED))
    vectors = {name: tensors[name] for name in VECTORS}
    state = State(int(metadata["round"]), server, clients, rows=json.loads(metadata["rows"]), noted=noted, **vectors)
    return state, metadata


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def of_server(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what servers hold of all that a run left as its weights."""
    return {name: value for name, value in saved.items() if not name.startswith((CLIENTS, SENT, SENT_BY, DIVERGED))}


def _digest(tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> str:
    names = sorted(tensors)
    return (
        fingerprint(tensors[name] for name in names)
        + hashlib.blake2b(json.dumps([names, dict(facts)], sort_keys=True).encode(), digest_size=16).hexdigest()
    )
