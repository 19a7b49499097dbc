"""Readers: applications of a parameter that show what they saw of a sample in what is sent, found by experiment.

Of y = W x with derivatives d at y the gradient of W is the sum of d x' over samples and places, that of a bias added to
y the sum of d, and that of learned positions d itself, place by place. Which parameters are such is tried on noise, in
the client's own round: a layer is a reader only if its update there is of this form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.probing.algebra.applications import Application, watched
from leaklab.probing.algebra.rehearsal import FAILURES, SAMPLES, Rehearsal
from leaklab.probing.algebra.rounding import floor
from leaklab.probing.algebra.sample_maps import SampleMap, sample_map
from leaklab.probing.case import Case
from leaklab.records.streams import stream

READ = ("product", "convolution")
BENT = "what it sees is no affine map of a sample"
WHOLE = "samples are whole numbers, e.g. tokens, and what it sees of them is no affine map"


@dataclass(frozen=True)
class Positions:
    """A parameter whose gradient is the derivative of each place of the one sample, from a row on."""

    name: str
    first: int


@dataclass(frozen=True, eq=False)
class Reader:
    """A layer whose update shows what it saw.

    Attributes:
        seen: the application, as it was on noise.
        places: at how many places of a sample it is.
        bias: what is added to its output, by name; None for nothing that is sent.
        positions: what is added place by place; None for nothing that is sent.
        rectified: whether its units were silent on noise just where they are below zero, as before a ReLU.
        way: from a sample to what it sees, or why there is no way back.
    """

    seen: Application
    places: int
    bias: str | None
    positions: Positions | None
    rectified: bool
    way: SampleMap | str

    @property
    def layer(self) -> str:
        """Return the name of the layer, or of the bare parameter."""
        return self.seen.name.removesuffix(".weight")

    def weight_update(self, case: Case, rehearsal: Rehearsal) -> Tensor:
        """Return G [m, n] of an exchange, without decay, divided by its nominal rate."""
        return self.seen.upright(update(case, rehearsal, self.seen.name))

    def bias_update(self, case: Case, rehearsal: Rehearsal) -> Tensor | None:
        """Return g [m], likewise."""
        return None if self.bias is None else update(case, rehearsal, self.bias)


def update(case: Case, rehearsal: Rehearsal, name: str) -> Tensor:
    """Return what was sent of a parameter, without decay, divided by its nominal rate where there is one."""
    factor = rehearsal.factors.get(name)
    return rehearsal.plain(case.exchange, name) / (1.0 if factor is None else factor.gain)


def error_of(case: Case, rehearsal: Rehearsal, name: str) -> float:
    """Return the rms rounding error of ``update``."""
    factor = rehearsal.factors.get(name)
    return floor(case, name) / (1.0 if factor is None else factor.gain)


def readers(case: Case, rehearsal: Rehearsal) -> tuple[tuple[Reader, ...], tuple[str, ...]]:
    """Return all layers that show samples, and why others do not, a line each.

    Layers behind which a sample is not to be had are returned too, if each sees a sample at one place: what the first
    of them saw of it can still be read.
    """
    client = rehearsal.client

    def run(model: torch.nn.Module) -> Tensor:
        return client.value(model, rehearsal.inputs, rehearsal.targets)

    seen, value = watched(run, rehearsal.model(), seed=client.seed)
    names, straight = [one.name for one in seen], _straight(rehearsal)
    found, reasons = list[Reader](), list[str]()
    for one in seen:
        if one.kind == "table":
            continue
        why = _unfit(one, names, case, rehearsal)
        if why is not None:
            reasons.append(why)
            continue
        derivatives = torch.autograd.grad(value, one.output, retain_graph=True, allow_unused=True)[0]
        if derivatives is None:
            continue
        if not rehearsal.inputs.is_floating_point():
            way: SampleMap | str = WHOLE
        else:
            way = _way(rehearsal, one, case.seed) if one.number in straight else BENT
        reader = _reader(case, rehearsal, one, one.at_output(derivatives, SAMPLES), way)
        if isinstance(reader, str):
            reasons.append(reader)
        else:
            found.append(reader)
    return tuple(found), tuple(dict.fromkeys(reasons))


def _unfit(one: Application, names: Sequence[str], case: Case, rehearsal: Rehearsal) -> str | None:
    """Return why an application is not looked at; None where it is."""
    if one.name not in rehearsal.gradients:
        return f"{one.name} is frozen, so it shows nothing."
    if one.name not in case.exchange.sent:
        return f"{one.name} is not sent, so it shows nothing."
    if one.kind not in READ:
        return f"{one.name} is used by {one.kind}, of which nothing is read."
    if names.count(one.name) > 1:
        return f"{one.name} is used {names.count(one.name)} times, so that its update is a sum that is not taken apart."
    if one.given.shape[0] % SAMPLES:
        return f"{one.name} sees no rows that belong to one sample each, so it is not read."
    return None


def _reader(
    case: Case, rehearsal: Rehearsal, one: Application, derivatives: Tensor, way: SampleMap | str
) -> Reader | str:
    """Return the reader of an application with derivatives [B, P, m] on noise, or why it is none."""
    given = one.rows(SAMPLES).detach()
    places = given.shape[1]
    tolerance = rehearsal.tolerance
    product = derivatives.flatten(0, 1).mT @ given.flatten(0, 1)
    gradient = one.upright(rehearsal.gradients[one.name])
    if not _near(product, gradient, tolerance):
        return f"{one.name} is no plain factor of the loss, so it is not read."
    total = derivatives.sum((0, 1))
    bias = next((name for name, own in rehearsal.gradients.items() if own.shape == total.shape and own.any()
                 and name in case.exchange.sent and _near(own, total, tolerance)), None)  # fmt: skip
    if one.name not in rehearsal.factors:
        if not _spanned(rehearsal, one, given, bias):
            return f"What is sent of {one.name} is no sum over samples in the client's own round, so it is not read."
    elif bias is not None and bias not in rehearsal.factors:
        bias = None
    positions = _positions(case, rehearsal, derivatives) if places > 1 else None
    outputs = one.at_output(one.output.detach(), SAMPLES)
    if bias is not None:
        own = rehearsal.client.model.get_parameter(bias).detach()
        plain = given @ one.upright(rehearsal.client.model.get_parameter(one.name).detach()).mT
        outputs = plain + own
    off = outputs < 0
    rectified = bool(off.any()) and not bool(derivatives[off].any())
    return Reader(one, places, bias, positions, rectified, way)


def _near(first: Tensor, second: Tensor, tolerance: float) -> bool:
    return float((first - second).norm()) <= tolerance * float(second.norm())


def _spanned(rehearsal: Rehearsal, one: Application, given: Tensor, bias: str | None) -> bool:
    """Return whether a layer's update of several steps is D' X for the rows X of noise, and that of its bias D' 1."""
    sent = one.upright(rehearsal.sent.direction(one.name))
    rows = given.flatten(0, 1).double()
    if len(rows) >= rows.shape[1] or one.name not in rehearsal.sent.sent:
        return False
    mixing = least_squares(rows.mT, sent.mT)
    if not _near(rows.mT @ mixing, sent.mT, rehearsal.tolerance) or not sent.any():
        return False
    return bias is None or _near(mixing.sum(0), rehearsal.sent.direction(bias), rehearsal.tolerance**0.75)


def _positions(case: Case, rehearsal: Rehearsal, derivatives: Tensor) -> Positions | None:
    """Return the parameter whose gradient is that of the places, summed over samples; None for none."""
    places, units = derivatives.shape[1:]
    total = derivatives.sum(0)
    for name, own in rehearsal.gradients.items():
        if own.shape[-1:] != (units,) or name not in case.exchange.sent or name not in rehearsal.factors:
            continue
        rows = own.reshape(-1, units)
        for first in range(len(rows) - places + 1):
            if _near(rows[first : first + places], total, rehearsal.tolerance):
                return Positions(name, first)
    return None


def _straight(rehearsal: Rehearsal) -> set[int]:
    """Return the numbers of the applications that may see an affine map of a sample: half way between two they do."""
    model, first = rehearsal.model(), rehearsal.inputs.to(rehearsal.dtype)
    second, runs = first.flip(0), []
    try:
        for inputs in (first, second, (first + second) / 2):
            with torch.no_grad():
                seen, _ = watched(_run(rehearsal, inputs), model, seed=1)
            runs.append({one.number: one.given for one in seen})
    except FAILURES:  # tokens, of which nothing is half way
        return set()
    found = set()
    for number, middle in runs[2].items():
        ends = [run.get(number) for run in runs[:2]]
        if all(end is not None and end.shape == middle.shape and end.is_floating_point() for end in ends):
            size = rehearsal.tolerance * float(middle.abs().max())
            if float(((ends[0] + ends[1]) / 2 - middle).abs().max()) <= size:  # type: ignore[operator]
                found.add(number)
    return found


def _way(rehearsal: Rehearsal, one: Application, seed: int) -> SampleMap | str:
    """Return the map from a sample to what an application sees, or why there is none back."""
    inputs = rehearsal.inputs.to(rehearsal.dtype)
    model = rehearsal.model()

    def rows(samples: Tensor, draw: int = 0) -> Tensor:
        few = len(samples) < SAMPLES  # layers of batch normalisation take no single samples
        filled = torch.cat([samples, inputs])[: max(len(samples), SAMPLES)] if few else samples
        with torch.no_grad():
            applied, _ = watched(_run(rehearsal, filled), model, until=one.number, seed=draw)
        return applied[one.number].rows(len(filled))[: len(samples)].clone()

    try:
        draws = stream(seed, "ways", one.number)
        other = torch.cat([inputs[:1], rehearsal.noise(SAMPLES - 1, draws).to(inputs)])
        first = rows(inputs)[0]
        if not torch.equal(first, rows(inputs, 1)[0]):
            return "what it sees of a sample is drawn at random"
        if not torch.allclose(first, rows(other)[0], rtol=rehearsal.tolerance, atol=rehearsal.tolerance):
            return "what it sees of a sample depends on others of the batch"
        return sample_map(rows, inputs[:1], draws)
    except FAILURES as failed:
        return f"what it sees of a sample could not be tried: {failed}"


def _run(rehearsal: Rehearsal, samples: Tensor) -> Callable[[torch.nn.Module], object]:
    return lambda model: rehearsal.client.output(model, samples)
