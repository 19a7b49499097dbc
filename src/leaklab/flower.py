"""The recorder as a mod of a Flower ClientApp: what leaves the client, after all that the other mods did to it.

The first mod of ``ClientApp(mods=[...])`` is the outermost, so put it there. It asks messages for what they hold and
imports nothing of Flower, so that this module can be had without it. The message API and the legacy ``NumPyClient``
API both come as messages; arrays of the latter have no names (``probing/recorded.py`` gives them those of a model).

What a message holds cannot be changed, so it is written while the reply is already on its way, by a thread that takes
what the training leaves of the processor: a round hardly waits for the disk.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from leaklab.records.exchanges import Bounds, Limit, Sends
from leaklab.records.recording import (
    MASKED,
    OTHER_RECORD,
    UNMASKED,
    asked_for,
    check_kind,
    prepare,
    quietly,
    stored,
)

SECURE, MASKED_VECTORS = "secaggplus_configs", "masked_params"
"""Where Flower's secure aggregation (``secaggplus_mod``) writes its part of a message, and the masked vectors there."""
ROUND_KEYS = ("server-round", "server_round", "current_round")
Next = Callable[[Any, Any], Any]
_writers: dict[int, ThreadPoolExecutor] = {}
"""By process, as a fork has no threads: one thread that writes."""
_pending: dict[int, deque[tuple[int, Future[Path | None]]]] = {}
"""By process: exchanges that wait to be written, the oldest first, and the bytes that each holds in memory."""
LOWEST_PRIORITY = 19
NONE = -1
AHEAD = 1 << 29
"""Most bytes of exchanges that wait to be written; one waits whatever its size."""
Records = Mapping[str, Mapping[str, Any]]


def record(
    folder: str | Path | None = None, *, every: int = 1, limit: Limit = "10 GB", kind: Sends = "weights"
) -> "RecordMod":
    """Return the mod: ``ClientApp(mods=[leaklab.flower.record(), ...])`` records each training of each client.

    Without ``folder`` it records only while the variable ``LEAKLAB_RECORD`` names one, which is asked for in every
    call; else it hands messages on.

    Args:
        folder: of the exchanges, for all clients; an absolute path, as clients may run in other folders.
        every: record rounds 1, 1 + ``every``, ...; messages without a round's number are all recorded.
        limit: most exchanges of the folder, or its bytes as ``"10 GB"``; the oldest stay.
        kind: what the arrays of a reply are: weights, weights after minus before, or a gradient.

    Raises:
        UserError: ``every``, ``limit`` or ``kind`` is none that there is.
    """
    return RecordMod(folder, Bounds.of(every, limit), check_kind(kind))


def finish() -> None:
    """Wait until all exchanges of this process are written; a process that ends in order waits by itself."""
    _wait(NONE)


def _wait(most: int) -> None:
    """Wait until at most so many bytes of exchanges wait to be written; ``NONE``: until all are, empty ones too."""
    waiting = _pending.get(os.getpid(), deque())
    while waiting and sum(size for size, _ in waiting) > most:
        waiting[0][1].result()
        waiting.popleft()


def _behind(folder: Path, size: int, write: Callable[[], Path | None]) -> None:
    """Write an exchange behind the reply, when the processor has nothing else to do; a slow disk is waited for.

    Memory is bounded: by ``AHEAD``, or by this exchange and none beside it.
    """
    _wait(max(AHEAD - size, 0))
    process = os.getpid()
    if process not in _writers:
        _writers[process] = ThreadPoolExecutor(1, "leaklab-recorder", initializer=_give_way)
    try:
        future = _writers[process].submit(quietly, folder, write)
    except RuntimeError:  # the interpreter ends, and begins no thread
        quietly(folder, write)
    else:
        _pending.setdefault(process, deque()).append((size, future))


def _give_way() -> None:
    """Take what the training leaves of the processor; only Linux gives threads a priority of their own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


@dataclass(frozen=True)
class RecordMod:
    """A Flower mod that changes no message (``record``)."""

    folder: str | Path | None
    bounds: Bounds
    kind: Sends

    def __call__(self, message: Any, context: Any, call_next: Next) -> Any:
        """Hand the message on, return the reply, and record both if they are of a training."""
        place = asked_for(self.folder)
        if place is None:
            return call_next(message, context)
        # taken before the app runs: it may empty the records of what it was given
        given = quietly(place, lambda: self._given(place, message))
        reply = call_next(message, context)
        if given is not None:
            write = quietly(place, lambda: self._writing(place, given, reply))
            if write is not None:
                _behind(place, *write)
        return reply

    def _given(self, place: Path, message: Any) -> "Given | None":
        number = _round(message)
        training = message.metadata.message_type.partition(".")[0] == "train"
        if not training or not self.bounds.wants(None if number is None else number - 1):
            return None
        prepare(place)
        configs = message.content.config_records
        arrays = {key: dict(one) for key, one in message.content.array_records.items()}
        about = {
            "kind": self.kind,
            "node": str(message.metadata.dst_node_id),
            "round": number,
            "run": str(message.metadata.run_id),
            "config": _joined(configs),
        }
        return Given(arrays, about, SECURE in configs)

    def _writing(self, place: Path, given: "Given", reply: Any) -> tuple[int, Callable[[], Path | None]] | None:
        """Return the bytes of an exchange, and what writes it with all that it needs of the messages; None for none."""
        if reply.has_error():
            return None
        configs = reply.content.config_records
        sent = {key: dict(one) for key, one in reply.content.array_records.items() if len(one)}
        masked = MASKED_VECTORS in configs.get(SECURE, {})
        if not sent and not masked:
            return None  # the other stages of secure aggregation hold no arrays
        about: dict[str, Any] = {
            **given.about,
            "metrics": _joined({**reply.content.metric_records, **configs}),
            "facts": {},
            "secure_aggregation": MASKED if masked else UNMASKED if given.secured else None,
        }
        # masked vectors are as good as random: nothing of them is kept
        before, after = ({}, {}) if masked else _paired(given.arrays, sent)
        size = sum(array.nbytes for array in (*before.values(), *after.values()))
        return size, lambda: stored(place, before, after, about, self.bounds)


@dataclass(frozen=True)
class Given:
    """What the server sent: arrays of each record, facts, and whether secure aggregation is under way."""

    arrays: Records
    about: Mapping[str, Any]
    secured: bool


def _round(message: Any) -> int | None:
    """Return the round's number, from 1: of the configuration, or of the message's group; None if neither has one."""
    known = _joined(message.content.config_records) if message.has_content() else {}
    found = next((known[key] for key in ROUND_KEYS if key in known), message.metadata.group_id)
    return int(found) if str(found).isdecimal() else None


def _joined(records: Records) -> dict[str, Any]:
    """Return the entries of all records; a name that two have is written with the record's for the second."""
    joined: dict[str, Any] = {}
    for key, entries in records.items():
        for name, value in entries.items():
            joined[f"{key}{OTHER_RECORD}{name}" if name in joined else name] = value
    return joined


def _paired(given: Records, sent: Records) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arrays given and sent by name.

    The model's are those of the first record that came back with the names of one that was given, by preference under
    the same key. Arrays of other records are named ``record/array``.
    """
    pairs = [(one, other) for other in sent for one in given if list(given[one]) == list(sent[other])]
    pairs.sort(key=lambda pair: pair[0] != pair[1])
    first, second = pairs[0] if pairs else (next(iter(given), ""), next(iter(sent)))
    return _arrays(given, first), _arrays(sent, second)


def _arrays(records: Records, model: str) -> dict[str, Any]:
    return {
        name if key == model else f"{key}{OTHER_RECORD}{name}": _values(array)
        for key, arrays in records.items()
        for name, array in arrays.items()
    }


def _values(array: Any) -> Any:
    """Return an array of which nobody has hold: as it lies in its message where that cannot change, else a copy."""
    import numpy as np

    data = getattr(array, "data", None)
    if not isinstance(data, bytes) or not data.startswith(b"\x93NUMPY\x01"):
        return np.array(array.numpy())
    file = BytesIO(data)
    np.lib.format.read_magic(file)
    shape, backwards, dtype = np.lib.format.read_array_header_1_0(file)
    if backwards or dtype.hasobject:
        return np.array(array.numpy())
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape)
