"""The recorder: one client's round of any training goes into a folder, its private samples into another, if asked.

A recorder sits in a training that it must not break: what fails while it writes is one line of the log, once. Only a
setting that no training could have meant is raised, at the first call.
"""

import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from leaklab.records.errors import UserError
from leaklab.records.exchanges import Bounds, Limit, Sends, keep

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "LEAKLAB_RECORD"
TRUTH_SCHEMA = "leaklab-truth/1"
EXCHANGES_MARK, TRUTH_MARK = "leaklab-exchanges.txt", "leaklab-truth.txt"
"""What lies in a folder of exchanges, and in one of private truth: neither may hold the other."""
MASKED, UNMASKED = "masked", "before masking"
"""Under secure aggregation: what leaves the client, or what its protocol still masks."""
OTHER_RECORD = "/"
"""Between the name of a record of a message and that of an array in it, if it is not the record of the model."""
Arrays = Mapping[str, Any] | Sequence[Any]
"""Tensors or numpy arrays, by name or in order."""
_MARKED = "Exchanges that leaklab recorded: what a server sees of its clients. Private samples have no place here.\n"
_PRIVATE = "Private samples, for an auditor alone. Nothing that leaves the client has a place here.\n"
Result = TypeVar("Result")
_log = logging.getLogger("leaklab")
_said: set[str] = set()


def record_update(
    before: Arrays,
    after: Arrays,
    folder: str | Path | None = None,
    *,
    kind: Sends = "weights",
    node: str | int = "",
    round: int | None = None,
    run: str | int = "",
    config: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    every: int = 1,
    limit: Limit = "10 GB",
    **facts: Any,
) -> Path | None:
    """Record one client's round of any training loop: what the server sees of it, and no samples.

    Args:
        before: what the client was given, parameters and buffers: a copy from before it trained, by name or in the
            order of ``state_dict``; tensors of any device, or numpy arrays.
        after: what the client sends, after all defenses, in the same form; tensors may be missing.
        folder: of the exchanges; None for that of the variable ``LEAKLAB_RECORD``, and without it nothing is recorded.
        kind: what ``after`` is: the weights, weights after minus before, or the gradient of the one step.
        node: who sends.
        round: number of the round, from 0.
        run: name of the training, where several share the folder.
        config: what the server told the client besides.
        metrics: what the client told the server besides.
        every: record rounds 0, ``every``, 2 ``every``, ...
        limit: most exchanges of the folder, or its bytes as ``"10 GB"``; the oldest stay.
        facts: what else is worth knowing, as plain values.

    Returns:
        The exchange's folder; None where nothing was recorded.

    Raises:
        UserError: ``kind``, ``every`` or ``limit`` is none that there is. What fails later is a line of the log.
    """
    bounds, kind = Bounds.of(every, limit), check_kind(kind)
    place = asked_for(folder)
    if place is None or not bounds.wants(round):
        return None

    def write() -> Path | None:
        given, sent = by_name(before), by_name(after)
        if kind == "weights" and _shared(given, sent):
            raise UserError("before and after are the same memory; copy the state before the client trains: "
                            "{name: value.clone() for name, value in model.state_dict().items()}")  # fmt: skip
        known = {"kind": kind, "node": str(node), "round": round, "run": str(run), "config": config or {},
                 "metrics": metrics or {}, "facts": facts}  # fmt: skip
        return stored(place, given, sent, known, bounds)

    return quietly(place, write)


def record_truth(
    folder: str | Path,
    inputs: "Tensor",
    targets: "Tensor",
    *,
    node: str | int = "",
    round: int | None = None,
    run: str | int = "",
) -> Path | None:
    """Keep the private samples of one client's round for its auditor, who grades with them what attackers read.

    Nothing else records samples, and nothing calls this but you.

    Args:
        folder: of its own, mode 0700, made if it is not there.
        inputs: the samples in the order in which the client used them, [N, ...].
        targets: what the loss compares with, [N, ...].
        node: as in ``record_update``; of a Flower app ``context.node_id``.
        round: as in ``record_update``; of a Flower app the server's, from 1.
        run: as in ``record_update``; of a Flower app ``context.run_id``.

    Returns:
        The file; None where it could not be written, which is a line of the log.

    Raises:
        UserError: others may read the folder, or it lies in or around a folder of exchanges.
    """
    place = Path(folder).absolute()
    if place.is_dir() and place.stat().st_mode & 0o077:
        mode = f"{place.stat().st_mode & 0o777:04o}"
        raise UserError(f"others may enter {place} (mode {mode}), which is to hold private truth: chmod 700 it")
    recorded = os.environ.get(VARIABLE)
    if recorded and Path(recorded).resolve() in (place.resolve(), *place.resolve().parents):
        raise UserError(f"{place} lies in the folder of exchanges {recorded}; private truth needs one beside it")
    _apart(place, EXCHANGES_MARK, "the exchanges of a recording; private truth needs a folder beside it")

    def write() -> Path:
        from leaklab.records.files import write_tensors

        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / TRUTH_MARK).write_text(_PRIVATE, encoding="utf-8")
        file = place / f"truth-{secrets.token_hex(8)}.safetensors"
        known = {"schema": TRUTH_SCHEMA, "node": str(node), "round": "" if round is None else str(round)}
        write_tensors(file, {"inputs": inputs, "targets": targets}, known | {"run": str(run)})
        return file

    return quietly(place, write)


def check_kind(kind: Sends) -> Sends:
    """Return what a client sends, if it is a word for that."""
    if kind not in get_args(Sends):
        raise UserError(f"kind={kind!r}: say what the client sends, one of {', '.join(get_args(Sends))}")
    return kind


def asked_for(folder: str | Path | None) -> Path | None:
    """Return where exchanges go: the folder given, else that of ``LEAKLAB_RECORD``, else None: recording is off."""
    named = folder or os.environ.get(VARIABLE)
    return Path(named).absolute() if named else None


def quietly(folder: Path, write: Callable[[], Result | None]) -> Result | None:
    """Return what ``write`` does; if it fails, say so in the log, each reason once in a process, and return None."""
    try:
        return write()
    except Exception as error:  # noqa: BLE001 - whatever a recorder meets, the training goes on
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        say_once(f"leaklab does not record into {folder}: {reason or type(error).__name__}; the training goes on")
        return None


def say_once(line: str) -> None:
    """Log a line as a warning, unless this process did before."""
    if line not in _said:
        _said.add(line)
        _log.warning(line)


def by_name(arrays: Arrays) -> dict[str, Any]:
    """Return arrays by name; those in order are named ``0``, ``1``, ..."""
    return dict(arrays) if isinstance(arrays, Mapping) else {str(n): value for n, value in enumerate(arrays)}


def prepare(folder: Path) -> None:
    """Make the folder of exchanges, for its owner alone, and mark it as one.

    Raises:
        UserError: private truth lies in it or around it.
    """
    _apart(folder, TRUTH_MARK, "private truth; exchanges need a folder beside it")
    if not (folder / EXCHANGES_MARK).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / EXCHANGES_MARK).write_text(_MARKED, encoding="utf-8")


def stored(
    folder: Path, before: Mapping[str, Any], sent: Mapping[str, Any], known: Mapping[str, Any], bounds: Bounds
) -> Path | None:
    """Write one exchange (``exchanges.keep``) and return its folder; None, and a line of the log, at the limit."""
    prepare(folder)
    kept = keep(folder, before, sent, known, bounds)
    if kept is None:
        say_once(f"{folder} has reached its limit: leaklab records no more there, and the oldest exchanges stay")
    return kept


def _apart(folder: Path, mark: str, held: str) -> None:
    """Refuse a folder that has the other kind's mark in it or above it, or in a folder that it was made with."""
    real = folder.resolve()
    new = real.is_dir() and not any((real / own).exists() for own in (EXCHANGES_MARK, TRUTH_MARK))
    for place in (real, *real.parents, *(real.iterdir() if new else ())):
        if (place / mark).exists():
            raise UserError(f"{place} holds {held}")


def _shared(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether all of them lie in the same memory: a state that training changed in place."""

    def place(value: Any) -> Any:
        if hasattr(value, "data_ptr"):
            return value.data_ptr()
        return value.__array_interface__["data"][0] if hasattr(value, "__array_interface__") else id(value)

    both = [(before[name], after[name]) for name in after if name in before]
    return bool(both) and all(place(given) == place(sent) for given, sent in both)
