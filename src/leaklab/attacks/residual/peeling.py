"""From the head down: errors, inputs and which cells are on, bend by bend, each with a certificate of its own.

Errors at a bend follow from those at the bends behind it, exactly. Convolutions that take its output tell the output by
least squares, and its values which cells are on. That goes on until a map has more cells with errors than there are
equations, or until a max pooling hides where its errors went.

A map is used where its residual is rounding and there are more equations to spare than cells of which nobody knew
whether they are on. It is proven where the equations besides determine every cell of it far better than it is long.

Source: ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from leaklab.attacks.residual.fits import Equations, Fit, settled
from leaklab.attacks.residual.last_map import LastMap, last_cells, last_map
from leaklab.attacks.residual.operations import RELU
from leaklab.attacks.residual.structure import Bend, Structure

QUIET, UNSURE = 3e-6, 1e-4
"""Shares of the largest value: below the first a cell counts as off, below the second this may be changed."""
FEW, MANY = 4.0, 30.0
"""The same in expected errors of the cell, where these are larger."""
NO_ERROR = 1e-12
"""Share of the largest error that is none: a cell that no error comes back to need not be known."""
SPEAKS = 8
"""Cells, on or off, that an equation decides, which is one of numbers and holds to a part in 10^4 or better."""
DETERMINED = 3e-4
"""Expected error of a cell relative to the largest value that a proof may leave: 70 dB, as 60 count as exact."""


@dataclass(frozen=True, eq=False)
class Map:
    """What is known of a bend's output.

    Attributes:
        values: [C, H, W], not negative.
        residual: relative, of the gradients that told it; the head's own misfit where that told it.
        layers: whose input it is, by name.
        flips: cells of the maps behind whose state was corrected.
        spread: expected error of each cell, [H, W]; of one channel as of another, infinite where nothing is known.
    """

    values: Tensor
    residual: float
    layers: tuple[str, ...]
    flips: int
    spread: Tensor

    @property
    def proven(self) -> bool:
        """Whether every cell is exact."""
        return float(self.spread.max()) <= DETERMINED * float(self.values.max())

    @property
    def on(self) -> Tensor:
        """Which cells are on."""
        return self.values > 0

    @property
    def firm(self) -> Tensor:
        """Which cells are on without any doubt."""
        return self.on & ~_states(self.values, self.spread)[1]


@dataclass(eq=False)
class Peeled:
    """What one update tells of a network's maps.

    Attributes:
        structure: of the network.
        last: what the head tells.
        maps: those whose gradients close, by their bends' names, from the last one down.
        on: which cells are on, by the names of ReLUs.
        errors: derivatives at the inputs of ReLUs, and at outputs of max pooling, by their names, [C, H, W].
        why: it went no further, in words.
    """

    structure: Structure
    last: LastMap
    maps: dict[str, Map] = field(default_factory=dict)
    on: dict[str, Tensor] = field(default_factory=dict)
    errors: dict[str, Tensor] = field(default_factory=dict)
    why: str = ""

    def behind(self) -> dict[str, Tensor]:
        """Return the derivatives at inputs of ReLUs and at the logits, [1, ...], by node."""
        bends = [one for one in self.structure.bends if one.name in self.errors and one.kind == RELU]
        known = {one.source: (self.errors[one.name] * self.on[one.name])[None] for one in bends}
        return {**known, self.structure.logits: self.last.head}


def peeled(
    structure: Structure, gradients: Mapping[str, Tensor], noise: Mapping[str, float],
    over: Callable[[], bool] = lambda: False,
) -> Peeled:  # fmt: skip
    """Return what the gradients of one sample tell of all maps that can be reached.

    Args:
        structure: of the network.
        gradients: by name, float64, up to one factor.
        noise: rms error of their entries, by name.
        over: asked before each map and each change of a cell, whether time is.

    Raises:
        UserError: see ``last_map``.
    """
    last = last_map(structure, gradients)
    found, unsure = Peeled(structure, last), dict[str, Tensor]()
    if not _begin(found, gradients, noise, unsure):
        return found
    for bend in reversed(structure.bends):
        reached = structure.next_to(bend.name) <= {*found.on, structure.logits}
        if bend == last.bend or not reached:
            continue
        if over():
            found.why = found.why or "time was over"
            break
        equations = _equations(found, bend, gradients, noise, unsure)
        if not equations:
            found.why = found.why or f"no convolution takes the output of '{bend.name}' alone and is sent"
            continue
        shape = structure.shapes[bend.name]
        fit = settled(equations, (shape[1], shape[2]), over)
        errors = _kept_cells(found, bend, fit, unsure) if _closes(fit) else None
        if errors is None:
            found.why = found.why or _shortfall(fit)
            continue
        _keep(found, bend, fit, errors, unsure)
    return found


def _begin(
    found: Peeled, gradients: Mapping[str, Tensor], noise: Mapping[str, float], unsure: dict[str, Tensor]
) -> bool:
    """Set the cells of the last map, and say whether they are known."""
    last, structure = found.last, found.structure
    name = last.bend.name
    if last.values is None:
        cells = last_cells(structure, last, gradients, noise)
        if isinstance(cells, str):
            found.why = cells
            return False
        found.on[name], unsure[name] = cells, torch.zeros_like(cells)
    else:
        own = noise[f"{structure.head}.weight"] / float(gradients[f"{structure.head}.bias"].norm())
        spread = torch.full_like(last.values[0], own)
        found.on[name], unsure[name] = _states(last.values, spread)
        values = last.values.clamp(min=0) * found.on[name]
        found.maps[name] = Map(values, last.rounding, (structure.head,), 0, spread)
    found.errors[name] = last.errors
    return True


def _equations(
    found: Peeled, bend: Bend, gradients: Mapping[str, Tensor], noise: Mapping[str, float], unsure: Mapping[str, Tensor]
) -> list[Equations]:
    """Return those of all convolutions that take a bend's output."""
    equations = []
    for reader in found.structure.readers:
        name = f"{reader.name}.weight"
        if reader.given != bend.name or name not in gradients or not bool(gradients[name].any()):
            continue
        if reader.bend is None or reader.gain is None:
            errors = found.structure.errors(reader.node, found.behind())
            equations.append(Equations(reader, gradients[name], noise[name], errors, None, None))
        else:
            errors, on = found.errors[reader.bend.name] * reader.gain, found.on[reader.bend.name]
            equations.append(Equations(reader, gradients[name], noise[name], errors, on, unsure.get(reader.bend.name)))
    return equations


def _states(values: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Return which of the values [C, H, W] that a ReLU gave are on, and which of them are in doubt."""
    most = values.max()
    return values > (FEW * spread).clamp(min=QUIET * most), values.abs() < (MANY * spread).clamp(min=UNSURE * most)


def _closes(fit: Fit) -> bool:
    doubts = sum(int(one.unsure.sum()) for one in fit.equations if one.unsure is not None)
    return fit.residual < fit.bar and SPEAKS * fit.surplus > doubts and float(fit.values.max()) > 0


def _shortfall(fit: Fit) -> str:
    layers = " and ".join(one.reader.name for one in fit.equations)
    if not bool(fit.known.all()) or not fit.surplus:
        return f"what {layers} sees has more cells than there are equations"
    if fit.residual >= fit.bar:
        return (
            f"the gradient of {layers} leaves {fit.residual:.1e} of itself unexplained, {fit.bar:.1e} may be rounding"
        )
    return f"the gradient of {layers} says too little of what it sees"


def _kept_cells(found: Peeled, bend: Bend, fit: Fit, unsure: dict[str, Tensor]) -> Tensor | None:
    """Keep what a fit tells of the cells behind a bend, and return the errors at it.

    None, and nothing is kept, where an error goes to a cell that is not known.
    """
    before = dict(found.on)
    for one in fit.equations:
        if one.reader.bend is not None and one.on is not None:
            found.on[one.reader.bend.name] = one.on
    errors = found.structure.errors(bend.name, found.behind())
    if float((errors * ~fit.known).abs().max()) > NO_ERROR * float(errors.abs().max()):
        found.on = before
        return None
    for name in {one.reader.bend.name for one in fit.equations if one.reader.bend is not None}:
        unsure[name] = torch.zeros_like(found.on[name])
        if name in found.maps:
            # rounding that is left of cells that are off counts as no activity
            found.maps[name] = replace(found.maps[name], values=found.maps[name].values * found.on[name])
    return errors


def _keep(found: Peeled, bend: Bend, fit: Fit, errors: Tensor, unsure: dict[str, Tensor]) -> None:
    """Keep what a fit tells of a bend's output."""
    on, doubts = _states(fit.values, fit.spread)
    layers = tuple(one.reader.name for one in fit.equations)
    found.maps[bend.name] = Map(fit.values.clamp(min=0) * on, fit.residual, layers, fit.flips, fit.spread)
    found.errors[bend.name] = errors
    if bend.kind == RELU:
        found.on[bend.name], unsure[bend.name] = on, doubts & fit.known
