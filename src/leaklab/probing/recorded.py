"""Exchanges that a training left (``records/recording.py``), read back and held against what was recorded.

Nothing is repaired. What is missing, changed, mixed or not finite is one line that says what to do: an exchange left
out in silence would make a training look safe.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from torch import Tensor, nn

from leaklab.probing.exchange import Exchange
from leaklab.probing.names import named
from leaklab.records.errors import UserError
from leaklab.records.exchanges import BEFORE, FINISHED, MANIFEST, SCHEMA, SENT, UNFINISHED, Sends, checksum
from leaklab.records.files import read_tensors
from leaklab.records.recording import MASKED, TRUTH_SCHEMA, UNMASKED

_KEYS: dict[str, type | tuple[type, ...]] = {
    "time": str, "kind": str, "node": str, "round": (int, type(None)), "run": str, "config": dict, "metrics": dict,
    "facts": dict, "names": dict, "files": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """The exchanges of a folder in the order of time; it is a sequence of them.

    Attributes:
        folder: where they lie.
        exchanges: what went to a client and what came back; of the facts, ``at`` is the exchange's folder, ``extra``
            holds what was sent by names that the client was not given, ``not_given`` names the model's others.
        masked: facts of the exchanges that secure aggregation had masked: of one client there is nothing to read.
        damaged: a line for each exchange that was left out, if that was asked for.
        unfinished: folders that killed writers left.
        unnamed: whether arrays have numbers for names.
    """

    folder: Path
    exchanges: tuple[Exchange, ...]
    masked: tuple[Mapping[str, Any], ...] = ()
    damaged: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    unnamed: bool = False

    def __len__(self) -> int:
        return len(self.exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges)

    def __getitem__(self, number: int) -> Exchange:
        return self.exchanges[number]

    def lines(self) -> tuple[str, ...]:
        """Return what was read, and what an auditor has to know of it, in sentences."""
        return tuple(self._lines())

    def record(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {
            "folder": str(self.folder),
            "exchanges": [one.facts["at"] for one in self],
            "masked": [facts["at"] for facts in self.masked],
            "damaged": list(self.damaged),
            "unfinished": list(self.unfinished),
            "unnamed": self.unnamed,
        }

    def _lines(self) -> Iterator[str]:
        seen = [*(one.facts for one in self), *self.masked]
        rounds = sorted({facts["round"] for facts in seen if facts["round"] is not None})
        said = f"rounds {rounds[0]} to {rounds[-1]}" if rounds else "rounds without a number"
        kinds = ", ".join(sorted({one.kind for one in self})) or "nothing that can be read"
        nodes, runs = (len({facts[key] for facts in seen}) for key in ("node", "run"))
        yield f"{_count(seen, 'exchange')} recorded, of {nodes} nodes, {said}; sent: {kinds}."
        if runs > 1:
            yield f"They are of {runs} trainings; facts['run'] tells them apart."
        if self.unnamed:
            yield "Arrays came without names, in the client's order; give the model, and they get those of its state."
        if self.masked:
            yield (
                f"{_count(self.masked, 'exchange')} left the client masked by secure aggregation: the server "
                "sees sums of clients only, and of one client there is nothing to read."
            )
        clear = [one for one in self if one.facts["secure_aggregation"] == UNMASKED]
        if clear:
            yield (
                f"{_count(clear, 'exchange')} recorded before secure aggregation masked them: no server sees them so. "
                "To record what leaves, put the recorder first in mods."
            )
        for one in self:
            yield from _about(one)
        if self.unfinished:
            yield f"{_count(self.unfinished, 'folder')} of killed writers: delete {', '.join(self.unfinished)}."
        yield from (f"Left out: {line}." for line in self.damaged)


def recorded(folder: str | Path, model: nn.Module | None = None, *, skip_damaged: bool = False) -> Recording:
    """Read all exchanges of a folder, or the one that the folder is.

    Args:
        folder: that ``record_update`` or ``leaklab.flower.record`` wrote into.
        model: with the names and shapes that tensors have to have; arrays without names get those of its
            ``state_dict``, or of its parameters if they are as many.
        skip_damaged: leave out what cannot be trusted, with a line for each, instead of stopping at the first.

    Raises:
        UserError: there is no exchange, or one is not what was recorded, not finite, or not of this model.
    """
    place = Path(folder)
    if not place.is_dir():
        raise UserError(f"{place} is no folder: give the one into which exchanges were recorded")
    inside = sorted(path.name for path in place.iterdir() if path.is_dir())
    single = (place / MANIFEST).is_file()
    found = [place] if single else [place / name for name in inside if FINISHED.fullmatch(name)]
    if not found:
        raise UserError(f"{place} holds no exchange: record with a folder, or with LEAKLAB_RECORD set, and train again")
    exchanges, masked, damaged, unnamed = [], [], [], False
    for path in found:
        try:
            manifest = _manifest(path)
            if manifest["secure_aggregation"] == MASKED:
                masked.append(_facts(path, manifest))
                continue
            exchange, numbered = _exchange(path, manifest, model)
        except UserError as error:
            if not skip_damaged:
                raise
            damaged.append(str(error))
            continue
        exchanges.append(exchange)
        unnamed |= numbered
    if damaged and not exchanges and not masked:
        raise UserError(f"no exchange of {place} can be read; the first: {damaged[0]}")
    exchanges.sort(key=lambda one: str(one.facts["time"]))
    unfinished = tuple(name for name in inside if UNFINISHED.fullmatch(name))
    return Recording(place, tuple(exchanges), tuple(masked), tuple(damaged), unfinished, unnamed)


def truth_of(folder: str | Path, exchange: Exchange) -> tuple[Tensor, Tensor]:
    """Return inputs and targets that ``record_truth`` kept of an exchange's node, round and run.

    Raises:
        UserError: there is none, or more than one.
    """
    from safetensors import SafetensorError, safe_open

    wanted = {"schema": TRUTH_SCHEMA}
    wanted |= {key: "" if exchange.facts[key] is None else str(exchange.facts[key]) for key in ("node", "round", "run")}
    fits = []
    for path in sorted(Path(folder).glob("truth-*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                known = file.metadata() or {}
        except SafetensorError:
            raise UserError(f"{path} is no safetensors file, so it is damaged: delete it") from None
        if all(known.get(key) in (value, "") for key, value in wanted.items()):
            fits.append(path)
    said = ", ".join(f"{key} {value}" for key, value in wanted.items() if key != "schema")
    if len(fits) != 1:
        raise UserError(f"{folder} holds {len(fits)} truths of {said}: call record_truth once in each round, with both")
    tensors = read_tensors(fits[0])
    return tensors["inputs"], tensors["targets"]


def _count(things: Any, what: str) -> str:
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def _about(exchange: Exchange) -> Iterator[str]:
    """Yield what one exchange has that others may not have."""
    at, extra, not_given = (exchange.facts[key] for key in ("at", "extra", "not_given"))
    if extra:
        yield f"{at}: {', '.join(extra)} came back and had not been given; facts['extra'] has what was sent."
    if not_given:
        yield f"{at}: the client was not given {', '.join(not_given)} of the model."
    changed = any(exchange.direction(name).count_nonzero() for name in exchange.sent)
    if not changed:
        yield f"{at}: what was sent changes nothing; nothing was trained, or 'before' was copied after the training."


def _manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{file} is missing: the recording is cut short; delete {path}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{file} is no JSON: the recording is cut short or was changed; delete {path}") from None
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise UserError(
            f"{file} is of schema {schema!r}, and this leaklab reads {SCHEMA!r}: take the leaklab that recorded it"
        )
    wrong = [key for key, kinds in _KEYS.items() if key not in manifest or not isinstance(manifest[key], kinds)]
    if wrong or manifest["kind"] not in get_args(Sends):
        key = wrong[0] if wrong else "kind"
        raise UserError(f"{file} has no '{key}' that can be read: it was changed; delete {path}")
    return {"secure_aggregation": None, **manifest}


def _facts(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    own = ("time", "node", "round", "run", "config", "metrics", "secure_aggregation")
    return {**manifest["facts"], **{key: manifest[key] for key in own}, "at": path.name}


def _exchange(path: Path, manifest: Mapping[str, Any], model: nn.Module | None) -> tuple[Exchange, bool]:
    numbered = False
    parts = []
    for name in (BEFORE, SENT):
        found, without = named(_tensors(path / name, manifest), model, f"{path / name}")
        parts.append(found)
        numbered |= without
    before, sent = parts
    if numbered and len(before) != len(sent):
        raise UserError(
            f"{path / SENT} has {len(sent)} arrays without names, and {BEFORE} {len(before)}: give the model that was "
            "trained, which has names for them"
        )
    extra = {name: value for name, value in sent.items() if name not in before}
    if len(extra) == len(sent):
        raise UserError(f"{path / SENT} shares no name with {BEFORE}: record both by the names of one state_dict")
    for name, value in sent.items():
        if name in before and value.shape != before[name].shape:
            raise UserError(
                f"{path / SENT}: tensor '{name}' is of shape {list(value.shape)}, and was given as "
                f"{list(before[name].shape)}: record before and after of the same model"
            )
    parameters = [] if model is None else [name for name, _ in model.named_parameters()]
    not_given = [name for name in parameters if name not in before]
    facts = {**_facts(path, manifest), "extra": extra, "not_given": not_given}
    common = {name: value for name, value in sent.items() if name in before}
    return Exchange(before, common, manifest["kind"], facts), numbered


def _tensors(file: Path, manifest: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a file's tensors in the order in which they were recorded."""
    if not file.is_file():
        raise UserError(f"{file} is missing: the recording is cut short; delete {file.parent}")
    if checksum(file) != manifest["files"].get(file.name):
        raise UserError(
            f"{file} is not the file that was recorded (its checksum differs): two recordings were mixed, or it was "
            f"changed; take the right one, or delete {file.parent}"
        )
    try:
        tensors = read_tensors(file)
    except UserError:
        raise UserError(f"{file} is no safetensors file: record again, or delete {file.parent}") from None
    names = manifest["names"].get(file.name)
    names = [str(name) for name in names] if isinstance(names, list) else []
    for missing in (name for name in names if name not in tensors):
        raise UserError(f"{file} lacks tensor '{missing}', which {MANIFEST} names: delete {file.parent}")
    for added in (name for name in tensors if name not in names):
        raise UserError(f"{file} holds tensor '{added}', which {MANIFEST} does not name: delete {file.parent}")
    for name, value in tensors.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise UserError(
                f"{file}: tensor '{name}' holds values that are not finite, as the training diverged: "
                f"delete {file.parent}, or read with skip_damaged"
            )
    return {name: tensors[name] for name in names}
