"""Files of updates: the tensors that were recorded, to the bit, or one line; what is beside them stays."""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from cases.outcomes import REFUSED, TAKEN, ensure, read_or_refused, unchanged
from cases.spoil import JUNK, Draw, altered, damaged
from leaklab.probing.exchange import Exchange
from leaklab.probing.recorded import Recording, recorded, truth_of
from leaklab.records import recording
from leaklab.records.exchanges import BEFORE, MANIFEST, SENT, checksum
from leaklab.records.recording import record_truth, record_update

NAMES = st.sampled_from(["0.weight", "0.bias", "1.weight", "ä", "a/b", "", "__metadata__", "x" * 300, "\ud800", "a\nb",
                         "0", "1", "../x"])  # fmt: skip
TYPES = st.sampled_from(["float32"] * 6 + ["float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool",
                                           "complex64", "float8_e5m2"])  # fmt: skip
SHAPES = st.sampled_from([(3,), (2, 3), (3, 2), (), (0,), (1, 2, 1), (0, 3)])
ODD = st.sampled_from([float("nan"), float("inf"), -0.0, 1e-45])
Tensors = dict[str, Any]


def case(draw: Draw, folder: Path) -> str:
    """Record what clients send, read it back; or spoil what was recorded first."""
    recording._said.clear()
    log = logging.getLogger("leaklab")
    level = log.level
    log.setLevel(logging.CRITICAL)  # thousands of refusals, which are no news
    try:
        return draw(st.sampled_from([round_trip, round_trip, spoilt, spoilt, spoilt, a_truth]))(draw, _fresh(folder))
    finally:
        log.setLevel(level)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder / "seen", ignore_errors=True)
    shutil.rmtree(folder / "private", ignore_errors=True)
    return folder


def _tensor(draw: Draw) -> Any:
    """Return a tensor or array of some type, shape and order in memory."""
    made: Any = torch.arange(6.0).reshape(2, 3) if draw(st.booleans()) else torch.randn(draw(SHAPES))
    if made.numel() and draw(st.integers(0, 15)) == 0:
        made = made.clone()
        made.view(-1)[0] = draw(ODD)
    ways = ["as it is", "as it is", "turned", "every other", "expanded", "gradient", "numpy", "order"]
    match draw(st.sampled_from(ways)):
        case "turned":
            made = made.mT if made.ndim > 1 else made
        case "every other":
            made = made[::2] if made.ndim else made
        case "expanded":
            made = made.expand(2, *made.shape)
        case "gradient":
            return made.requires_grad_()
        case "numpy":
            return draw(st.sampled_from([made.numpy(), made.numpy()[..., None].astype(">f4"), np.float32(1.5)]))
        case "order":
            return np.asfortranarray(made.numpy())
    return made.to(getattr(torch, draw(TYPES)))


def round_trip(draw: Draw, folder: Path) -> str:
    """Record drawn tensors: what is read is what was recorded, of the same types, names and order."""
    before: Tensors = {draw(NAMES): _tensor(draw) for _ in range(draw(st.integers(1, 3)))}
    after = {name: draw(st.sampled_from([value, value, _other(value)])) for name, value in before.items()}
    if draw(st.integers(0, 3)) == 0:
        after[draw(NAMES)] = _tensor(draw)
    by_order = draw(st.integers(0, 4)) == 0
    facts = draw(JUNK)
    wrote = record_update(
        list(before.values()) if by_order else before, list(after.values()) if by_order else after, folder / "seen",
        kind=draw(st.sampled_from(["weights", "delta", "gradient"])), node=draw(st.sampled_from(["", 3, "ä\n"])),
        round=draw(st.sampled_from([None, 0, 7])), config={"c": facts}, metrics={"m": float("nan")}, note=facts,
    )  # fmt: skip
    if wrote is None:  # it is a line of the log, and nothing lies there
        ensure(not list((folder / "seen").glob("exchange-*")), "half an exchange")
        return REFUSED
    with unchanged(folder / "seen"):
        found, outcome = read_or_refused(recorded, folder / "seen")
    if found is not None:
        extra = found[0].facts["extra"]
        _check_same(_numbered(before) if by_order else before, found[0].before)
        _check_same(_numbered(after) if by_order else after, {**found[0].sent, **extra})
        list(found.lines())
        json.dumps(found.record())
    return outcome


def _numbered(tensors: Tensors) -> Tensors:
    """Return tensors by their places, as those are called that were sent without names."""
    return {str(place): value for place, value in enumerate(tensors.values())}


def _other(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else np.array(value)


def _check_same(given: Mapping[str, Any], read: Mapping[str, torch.Tensor]) -> None:
    ensure(set(given) == set(read), f"recorded {sorted(given)}, read {sorted(read)}")
    for name, value in given.items():
        own = value.detach() if hasattr(value, "detach") else torch.from_numpy(
            np.array(value).astype(np.asarray(value).dtype.newbyteorder("="))
        )  # fmt: skip
        same = own.dtype == read[name].dtype and own.shape == read[name].shape and torch.equal(own, read[name])
        ensure(same, f"{name}: {own.dtype} {list(own.shape)} is read as {read[name].dtype} {list(read[name].shape)}")


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))


def spoilt(draw: Draw, folder: Path) -> str:
    """Spoil one of two exchanges: it is refused, or what is read is what was recorded."""
    model = _network()
    before = {name: torch.linspace(-1, 1, value.numel()).view_as(value) for name, value in model.state_dict().items()}
    after = {name: value + 1 for name, value in before.items()}
    for number in range(2):
        record_update(before, after, folder / "seen", round=number, node="n")
    _spoil(folder / "seen", after, draw)
    with unchanged(folder / "seen"):
        found, outcome = read_or_refused(recorded, folder / "seen", draw(st.sampled_from([None, model])))
        left, _ = read_or_refused(lambda: recorded(folder / "seen", model, skip_damaged=True))
    for one in (found, left):
        for exchange in one or ():
            _check_exchange(exchange, before, after)
    _check_count(folder / "seen", found, left)
    return outcome


def _check_exchange(exchange: Exchange, before: Tensors, after: Tensors) -> None:
    _check_same(before, exchange.before)
    _check_same({name: value for name, value in after.items() if name in exchange.sent}, exchange.sent)
    ensure(set(exchange.sent) == set(after), "tensors are gone")


def _check_count(folder: Path, found: Recording | None, left: Recording | None) -> None:
    """No exchange is left out in silence."""
    there = len([path for path in folder.glob("exchange-*") if path.is_dir() and path.name[9:].isdecimal()])
    if found is not None:
        ensure(len(found) + len(found.masked) == there, f"{len(found)} of {there} exchanges were read")
    if left is not None:
        ensure(len(left) + len(left.masked) + len(left.damaged) == there, f"{there} exchanges, and fewer are told of")


def _spoil(folder: Path, after: Tensors, draw: Draw) -> None:
    place = sorted(folder.glob("exchange-*"))[draw(st.integers(0, 1))]
    file = place / draw(st.sampled_from([BEFORE, SENT, MANIFEST]))
    ways = ["damage", "damage", "manifest", "manifest", "lost", "mixed", "nan", "folder", "beside"]
    match draw(st.sampled_from(ways)):
        case "damage":
            file.write_bytes(damaged(file.read_bytes(), draw))
        case "manifest":
            path = place / MANIFEST
            path.write_text(json.dumps(altered(json.loads(path.read_text("utf-8")), draw)), encoding="utf-8")
        case "lost":
            file.unlink()
        case "mixed":
            shutil.copy(place / BEFORE, place / SENT)
        case "nan":
            name = draw(st.sampled_from(sorted(after)))
            save_file({**after, name: after[name] * float("nan")}, place / SENT)
            path = place / MANIFEST
            known = json.loads(path.read_text("utf-8"))
            known["files"][SENT] = checksum(place / SENT)
            path.write_text(json.dumps(known), encoding="utf-8")
        case "folder":
            file.unlink()
            file.mkdir()
        case _:
            (folder / draw(st.sampled_from([".part-9-9-aa", "notes.txt", "exchange-x", "exchange-000009.zip"]))).mkdir()


def a_truth(draw: Draw, folder: Path) -> str:
    """Keep private samples and read them back."""
    inputs, targets = torch.randn(draw(st.sampled_from([(2, 3), (1,), (0, 2)]))), torch.tensor([0, 1])
    update = {"a": torch.zeros(2)}
    node, number = draw(st.sampled_from(["", "ä", "a\nb", 3])), draw(st.sampled_from([None, 0, 5]))
    record_update(update, {"a": torch.ones(2)}, folder / "seen", node=node, round=number)
    kept = record_truth(folder / "private", inputs, targets, node=node, round=number)
    exchange = recorded(folder / "seen")[0]
    if kept is None:
        return REFUSED
    spoilt = draw(st.booleans())
    if spoilt:
        kept.write_bytes(damaged(kept.read_bytes(), draw))
    with unchanged(folder / "private"):
        found, outcome = read_or_refused(truth_of, folder / "private", exchange)
    if found is not None and not spoilt:
        _check_same({"inputs": inputs, "targets": targets}, dict(zip(("inputs", "targets"), found, strict=True)))
    return outcome if found is None else TAKEN
