"""Stage 1 of a probe: is what came back an update of the described model at all, and how fine are its numbers?"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.exchange import Exchange
from leaklab.probing.grids import Grid, grid_of

PREFIXES = ("module.", "_orig_mod.", "_module.", "model.")
"""What wrappers put before names: data parallel, ``torch.compile``, opacus, Lightning."""
LOST = 0.3
"""Relative rounding from which an update is lost in it."""
SHOWN = 4
"""Names that a sentence lists."""


@dataclass(frozen=True)
class Finding:
    """Something of the update that its reader has to know.

    Attributes:
        what: one word for each kind of finding, e.g. ``missing``.
        names: of the tensors that it is about.
        says: a sentence with what to do.
        fatal: whether the update cannot be used with it.
    """

    what: str
    names: tuple[str, ...]
    says: str
    fatal: bool = False


@dataclass(frozen=True)
class Inputs:
    """What a look at the update alone tells.

    Attributes:
        usable: whether it can be probed.
        tensors: parameters of the model that were sent.
        numbers: their entries.
        dtype: their types, e.g. ``float32``.
        norm: Euclidean norm of the update over them: of the gradient, or of weights after minus before.
        floor: rounding of the arithmetic relative to that norm: half a unit in the last place of the weights for
            differences of them, of 1 for gradients.
        grid: coarser grid that all numbers lie on, e.g. ``bfloat16``; None for none.
        rounding: what that grid costs relative to the norm; 0 without.
        findings: the fatal ones first.
    """

    usable: bool
    tensors: int
    numbers: int
    dtype: str
    norm: float
    floor: float
    grid: str | None
    rounding: float
    findings: tuple[Finding, ...]

    def lines(self) -> tuple[str, ...]:
        """Return what was found in sentences; the first says whether the update can be used."""
        fatal = [finding.says for finding in self.findings if finding.fatal]
        if fatal:
            more = f" ({len(fatal) - 1} more below)" if fatal[1:] else ""
            first = f"The update cannot be used: {fatal[0]}{more}."
        else:
            first = f"The update can be used: {self.tensors} tensors, {self.numbers:,} numbers in {self.dtype}."
        lines = [first, *(f"{says[0].upper()}{says[1:]}." for says in fatal[1:])]
        if self.norm:
            size = f"Its norm is {self.norm:.3g}; what is finer than {self.floor:.1g} of it is lost in rounding."
            lines.append(size)
        if self.grid is not None:
            lines.append(f"All numbers are rounded to {self.grid}, which costs {self.rounding:.2g} of the norm.")
        return (*lines, *(f"{f.says[0].upper()}{f.says[1:]}." for f in self.findings if not f.fatal))

    def record(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return asdict(self) | {"lines": list(self.lines())}


def check_inputs(case: Case) -> Inputs:
    """Look at an exchange before anything is computed of it; the model is not run."""
    exchange, parameters = case.exchange, dict(case.client.model.named_parameters())
    found = [*_names(case), *_shapes(case), *_values(case), *_buffers(case), *_samples(case)]
    fitting = {
        name: value
        for name, value in exchange.sent.items()
        if name in parameters and value.is_floating_point() and value.shape == parameters[name].shape
    }
    norm = _norm(exchange.direction(name) for name in fitting if name in exchange.before)
    floor, grid = floor_of(exchange, fitting, norm), grid_of(fitting)
    if not any(finding.fatal for finding in found):
        found += _size(fitting, norm, floor)
    return Inputs(
        usable=not any(finding.fatal for finding in found),
        tensors=len(fitting),
        numbers=sum(value.numel() for value in fitting.values()),
        dtype=" and ".join(sorted({str(value.dtype).removeprefix("torch.") for value in fitting.values()})),
        norm=norm,
        floor=floor,
        grid=None if grid is None else grid.name,
        rounding=relative(grid, norm),
        findings=tuple(sorted(found, key=lambda finding: not finding.fatal)),
    )


def floor_of(exchange: Exchange, names: Collection[str], norm: float | None = None) -> float:
    """Return the rounding of the arithmetic relative to the update over some parameters, of this norm if it is known.

    A difference of weights w has lost 6e-8 |w| in float32, however small it is; a gradient loses 6e-8 of itself.
    """
    if not names:
        return 0.0
    halves = {name: torch.finfo(exchange.before[name].dtype).eps / 2 for name in names if name in exchange.before}
    if exchange.kind == "gradient":
        return max(halves.values(), default=0.0)
    norm = _norm(exchange.direction(name) for name in halves) if norm is None else norm
    lost = _norm(exchange.before[name].double() * half for name, half in halves.items())
    return lost / norm if norm else 0.0


def relative(grid: Grid | None, norm: float) -> float:
    """Return what a grid costs of an update of this norm."""
    return 0.0 if grid is None or not norm else grid.error / norm


def listed(names: Collection[str]) -> str:
    """Return the first names, and how many more there are."""
    some = list(names)
    return ", ".join(some[:SHOWN]) + (f" and {len(some) - SHOWN} more" if some[SHOWN:] else "")


def _norm(tensors: Iterable[Tensor]) -> float:
    return float(sum(float(torch.linalg.vector_norm(value.double())) ** 2 for value in tensors) ** 0.5)


def _broken(values: Tensor) -> int:
    """Return how many entries are not finite; their sum tells in a tenth of the time that there are none."""
    return 0 if bool(values.sum().isfinite()) else int((~values.isfinite()).sum())


def _names(case: Case) -> Iterator[Finding]:
    """Yield which names are missing or unknown, and how they might be meant."""
    state, sent, before = case.client.model.state_dict(), case.exchange.sent, case.exchange.before
    if not sent:
        yield Finding("empty", (), "nothing was sent: give the tensors by the names of state_dict", True)
        return
    expected = list(case.client.trained()) if case.client.shares is None else list(case.client.shares)
    missing, extra = [name for name in expected if name not in sent], [name for name in sent if name not in state]
    if extra:
        told = _meant(extra, missing, case)
        fatal = not any(name in sent for name in expected)
        yield Finding("extra", tuple(extra), f"the model has no {listed(extra)}: {told}", fatal)
    if missing and not (extra and len(missing) == len(expected)):
        said = f"{listed(missing)} should have been sent and was not: all that follows leaves it out"
        none = len(missing) == len(expected)
        yield Finding("missing", tuple(missing), said, none)
    if lacking := [name for name in state if name not in before]:
        said = f"the state before the round lacks {listed(lacking)}: give the whole state_dict"
        yield Finding("before lacks", tuple(lacking), said, any(name in expected for name in lacking))
    moved = [name for name in state if name in before and _differ(before[name], state[name])]
    if moved:
        said = f"the described model has other values in {listed(moved)} than the exchange says it began with: "
        yield Finding("other weights", tuple(moved), f"{said}those of the exchange are taken")


def _differ(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and not torch.equal(one, other.to(one))


def _meant(extra: list[str], missing: list[str], case: Case) -> str:
    """Return what to do about names that the model does not have."""
    state = case.client.model.state_dict()
    for prefix in PREFIXES:
        if all(name.removeprefix(prefix) in state and name.startswith(prefix) for name in extra):
            return f"take '{prefix}' off the names"
        if all(f"{prefix}{name}" in state for name in extra):
            return f"put '{prefix}' before the names"
    if all(name.isdigit() for name in extra):
        return "these are places, not names: zip them with the keys of state_dict"
    pairs = {}
    for name in extra:
        like = [other for other in missing if state[other].shape == case.exchange.sent[name].shape]
        if len(like) == 1:
            pairs[name] = like[0]
    if pairs:
        return "by their shapes, rename " + listed([f"{name} to {meant}" for name, meant in pairs.items()])
    return "leave them out, or describe the model that has them"


def _shapes(case: Case) -> Iterator[Finding]:
    """Yield which tensors have other shapes than the model's, or no floating type."""
    parameters = dict(case.client.model.named_parameters())
    for name, value in case.exchange.sent.items():
        if name not in parameters:
            continue
        own, got = list(parameters[name].shape), list(value.shape)
        if own != got:
            if sorted(own) == sorted(got):
                way = "transpose it"
            else:
                same = value.numel() == parameters[name].numel()
                way = "reshape it" if same else "describe the model that was trained"
            yield Finding("shape", (name,), f"{name} has shape {got}, the model's has {own}: {way}", True)
        elif not value.is_floating_point():
            said = f"{name} has type {value.dtype}: give the numbers after they were decoded"
            yield Finding("type", (name,), said, True)


def _values(case: Case) -> Iterator[Finding]:
    """Yield which tensors are not finite, and which are zero throughout."""
    parameters, sent = dict(case.client.model.named_parameters()), case.exchange.sent
    for place, tensors in (("what was sent", sent), ("the state before the round", case.exchange.before)):
        broken = {name: _broken(value) for name, value in tensors.items() if name in parameters}
        broken = {name: count for name, count in broken.items() if count}
        if broken:
            told = listed([f"{name} ({count} of {tensors[name].numel()})" for name, count in broken.items()])
            said = f"{place} has entries that are no finite numbers, in {told}: the training diverged, or was cut"
            yield Finding("not finite", tuple(broken), said, True)
    trained = case.client.trained()
    still = [name for name in sent if name in trained and name in case.exchange.before and _still(case.exchange, name)]
    if still and len(still) < len([name for name in sent if name in parameters]):
        said = f"{listed(still)} did not change at all: frozen, unused, or cut by what was done before sending"
        yield Finding("zero", tuple(still), said)
    frozen = [name for name in sent if name in parameters and name not in trained]
    if moved := [name for name in frozen if name in case.exchange.before and not _still(case.exchange, name)]:
        said = f"{listed(moved)} changed, though described as frozen: let them require a gradient"
        yield Finding("thawed", tuple(moved), said)


def _still(exchange: Exchange, name: str) -> bool:
    sent, before = exchange.sent[name], exchange.before[name]
    return sent.shape == before.shape and not (sent.any() if exchange.kind != "weights" else (sent != before).any())


def _size(fitting: Mapping[str, Tensor], norm: float, floor: float) -> Iterator[Finding]:
    if not norm:
        said = "every tensor is zero: the client did not train, its rate is 0, or before and after are one state"
        yield Finding("nothing", tuple(fitting), said, True)
    elif floor > LOST:
        said = f"its norm {norm:.1g} is lost in the rounding of the weights: send in a finer type, or the gradient"
        yield Finding("lost", tuple(fitting), said, True)


def _buffers(case: Case) -> Iterator[Finding]:
    """Yield what sent buffers show of the training."""
    client, exchange = case.client, case.exchange
    buffers = [name for name, value in client.model.named_buffers() if name in exchange.sent and value.numel()]
    if not buffers or exchange.kind == "gradient":
        return
    counts = {name: int(-exchange.direction(name)) for name in buffers if name.endswith("num_batches_tracked")}
    if counts:
        told = client.steps * client.accumulate if client.mode == "train" else 0
        seen = sorted(set(counts.values()))
        said = f"the layers count {' or '.join(map(str, seen))} batches in this round"
        agree = "as described" if seen == [told] else f"the description has {told}: check steps, mode, batches"
        yield Finding("batches", tuple(counts), f"{said}; {agree}")
    moving = [name for name in buffers if name.endswith(("running_mean", "running_var"))]
    if moving:
        moved = [name for name in moving if not _still(exchange, name)]
        said = "were sent and did not move: the layers were in eval mode"
        if moved:
            said = "were sent and moved: train mode, and the mean and variance of what these layers saw are told"
        yield Finding("statistics", tuple(moved or moving), f"running statistics ({listed(moved or moving)}) {said}")


def _samples(case: Case) -> Iterator[Finding]:
    """Yield why the samples cannot be replayed."""
    inputs, targets = case.inputs, case.targets
    if inputs is None or targets is None:
        return
    if len(inputs) != len(targets):
        said = f"there are {len(inputs)} samples and {len(targets)} targets: nothing can be replayed with them"
        yield Finding("samples", (), said)
    if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        rows = (~inputs.flatten(1).isfinite().all(1)).nonzero().flatten().tolist()
        yield Finding("samples", (), f"samples {listed([str(row) for row in rows])} have entries that are not finite")
