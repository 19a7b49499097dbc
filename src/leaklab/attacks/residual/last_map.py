"""The last map of a residual network and its errors, which the head gives away.

Of one sample the head's gradients are db f' and db: its input f, and, with its weights, the errors of the last map. If
f holds every cell, as behind a flattening or of maps of one cell, all is told. If f is a mean over places, errors are
known but for which cells are on. A convolution before it with kernels of any odd size, stride 1 and as many places at
its input as at its output then has G_k = E S_k U for each tap k: errors E [O, N], shifts S_k [N, N] that are known,
inputs U [N, I]. Where both have rank N the G_k / G_centre are the shifts in an unknown basis, X (G_k / G_centre) =
S_k X. That is linear in X, and as shifts to and fro generate all matrices, X is unique but for a factor. Cells that are
on have the same share of what the head says, so that E is rounded and exact.

Source: ours; a simultaneous similarity, by inverse iteration.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.attacks.labels.head import layer_input
from leaklab.attacks.least_squares import least_squares
from leaklab.attacks.residual.operations import RELU, near
from leaklab.attacks.residual.structure import Bend, Reader, Structure
from leaklab.records import tensor_algebra
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

ONE_SAMPLE = 1e-4
"""Relative misfit of the head's gradient that rounding may leave."""
RANK, RIDGE, INVERSIONS = 1e-6, 1e-10, 8
MOST_PLACES = 64
"""Of a map whose errors are found by similarity: their matrix has the fourth power of it entries."""
ALIKE, HALF = 1.1, 0.5
"""Ratio within which errors of cells that are on are alike, and share of them from which on a cell is on."""


@dataclass(frozen=True, eq=False)
class LastMap:
    """What the head tells.

    Attributes:
        bend: the ReLU whose output the head's input is made of.
        errors: the loss's derivative at it, [O, H, W].
        values: of it, [O, H, W]; None where the head sees means of them.
        head: derivatives of the logits, [1, K].
        rounding: relative misfit of what the head tells twice.
    """

    bend: Bend
    errors: Tensor
    values: Tensor | None
    head: Tensor
    rounding: float


def last_map(structure: Structure, gradients: Mapping[str, Tensor]) -> LastMap:
    """Return what the head's gradients tell of one sample.

    Args:
        structure: of the network.
        gradients: by name, float64.

    Raises:
        UserError: they are missing or zero, they are not those of one sample, or the head sees more than one map.
    """
    who, needed = structure.operations.who, [f"{structure.head}.{part}" for part in ("weight", "bias")]
    kept = [name for name in needed if name not in gradients]
    if kept:
        raise UserError(f"{who}: '{kept[0]}' is not sent: choose another attack or defense")
    weight, bias = (gradients[name] for name in needed)
    if not bool(bias.any()) or not bool(weight.any()):
        raise UserError(f"{who}: the update of '{structure.head}' is zero, so that nothing follows from it")
    features = layer_input(weight[None], bias[None])[0]
    misfit = float((weight - torch.outer(bias, features)).norm() / weight.norm())
    if not misfit < ONE_SAMPLE:
        raise UserError(
            f"{who}: the update is not that of one sample without noise ({misfit:.1e} of the head's gradient speak "
            f"against it, {ONE_SAMPLE} may): choose another attack"
        )
    bends = [one for one in structure.bends if structure.logits in structure.next_to(one.name)]
    if len(bends) != 1 or bends[0].kind != RELU:
        raise UserError(f"{who} needs a head behind one ReLU: choose another attack or model")
    errors = structure.errors(bends[0].name, {structure.logits: bias[None]})
    return LastMap(bends[0], errors, _all_cells(structure, bends[0], features), bias[None], misfit)


def _all_cells(structure: Structure, bend: Bend, features: Tensor) -> Tensor | None:
    """Return the map [O, H, W] behind the head's input if that holds every cell, each with the same factor."""
    shape = structure.shapes[bend.name]
    if features.numel() != torch.Size(shape).numel():
        return None
    held = structure.shapes[structure.features]
    drawn = stream(0, "features").normal(1, *held).to(features)
    back = structure.errors(bend.name, {structure.features: drawn})
    there = structure.through(bend.name, structure.features, back[None])
    factor = float((there * drawn).sum() / drawn.square().sum())
    if not near(there, factor * drawn):
        return None
    offset = structure.flat[structure.features].detach()
    return structure.errors(bend.name, {structure.features: features.view(1, *held) - offset}) / factor


def last_cells(
    structure: Structure, last: LastMap, gradients: Mapping[str, Tensor], noise: Mapping[str, float]
) -> Tensor | str:
    """Return which cells of the last map are on, [O, H, W], where the head sees means of them; or why none is told.

    Where the last errors lack rank, the convolution before is turned round: its inputs, which have passed a shortcut,
    take the errors' part. They tell the last inputs up to a factor, if no normalisation shifts them, and these the
    errors by least squares.

    Args:
        structure: of the network.
        last: what the head tells.
        gradients: by name.
        noise: rms error of their entries, by name.
    """
    shape = structure.shapes[last.bend.name]
    readers = [one for one in structure.readers if one.bend == last.bend and f"{one.name}.weight" in gradients]
    for reader in readers:
        gain, places = reader.gain, shape[1] * shape[2]
        if gain is None or not 1 < places <= MOST_PLACES or not _shifts(structure, reader):
            continue
        one = (last.errors * gain).flatten(1)
        sizes = one.abs().amax(1)
        told = sizes > 0  # a normalisation's factor may be 0
        unit = torch.zeros_like(gradients[f"{reader.name}.weight"])
        unit[told] = gradients[f"{reader.name}.weight"][told] / sizes[told, None, None, None]
        error = noise[f"{reader.name}.weight"] / float(sizes[told].min())
        errors = _errors_of(structure, reader, unit, error, gradients, noise)
        if errors is not None:
            scaled = torch.where(one != 0, one / sizes.clamp(min=1e-300)[:, None], torch.inf)
            return _rounded(errors / scaled).view(shape)
    return (
        f"the head sees means of '{last.bend.name}', and no convolution before it tells its {shape[1]}x{shape[2]} "
        "places apart"
    )


def _errors_of(
    structure: Structure, reader: Reader, unit: Tensor, error: float, gradients: Mapping[str, Tensor],
    noise: Mapping[str, float],
) -> Tensor | None:  # fmt: skip
    """Return errors [O, N] up to a factor, of the convolution or of the one before; None where both lack rank."""
    sides = (structure.shapes[reader.given][1], structure.shapes[reader.given][2])
    if _rank(unit, error) >= sides[0] * sides[1]:
        return similar(unit, reader.seen(*sides))
    before = next((one for one in structure.readers if one.bend and one.bend.name == reader.given), None)
    if before is None or f"{before.name}.weight" not in gradients or not _shifts(structure, before):
        return None
    turned = gradients[f"{before.name}.weight"].permute(1, 0, 2, 3).flip(2, 3)
    if _rank(turned, noise[f"{before.name}.weight"]) < sides[0] * sides[1]:
        return None
    inputs = similar(turned, before.seen(*sides)).view(1, -1, *sides)
    source = structure.bend_of(reader.given).source
    hidden = structure.through(before.given, source, inputs * inputs.sum().sign(), offset=True).clamp(min=0)
    assert not isinstance(reader.layer.padding, str)  # such a layer is no reader
    patches = F.unfold(hidden, reader.layer.kernel_size, 1, reader.layer.padding, 1)[0]
    return least_squares(patches, unit.flatten(1).T).T


def _rank(gradient: Tensor, error: float) -> int:
    """Return how many singular values of [O, I, k, k'] stand above rounding."""
    flat = gradient.flatten(1)
    sizes = tensor_algebra.singular_values(flat)
    noise = error * (flat.shape[0] ** 0.5 + flat.shape[1] ** 0.5)
    return int((sizes > max(RANK * float(sizes[0]), noise)).sum())


def _shifts(structure: Structure, reader: Reader) -> bool:
    """Tell whether a convolution's taps are shifts of a map onto itself, with one that does not move it."""
    sizes, sides = reader.layer.kernel_size, structure.shapes[reader.given][1:]
    odd = all(size % 2 for size in sizes) and max(sizes) > 1
    return odd and set(reader.layer.stride) == {1} and structure.shapes[reader.node][1:] == sides


def similar(gradient: Tensor, shifts: Tensor) -> Tensor:
    """Return the errors [O, N] behind the gradient [O, I, k, k'] of a convolution, up to one factor.

    Args:
        gradient: its errors have rank N; its inputs may have less.
        shifts: which cell each tap sees at each place, [K, N]; N stands for padding. See ``Reader.seen``.
    """
    taps, places = shifts.shape
    middle, slices = taps // 2, gradient.flatten(2).permute(2, 0, 1)
    left = tensor_algebra.svd(slices.permute(1, 0, 2).flatten(1))[0][:, :places]
    small = left.T @ slices
    _, sizes, back = tensor_algebra.svd(small[middle])
    rank = int((sizes > RANK * sizes[0]).sum())
    small = small @ (back[:rank].T / sizes[:rank])
    centre = small[middle] @ small[middle].T
    one, gram = torch.eye(places).to(gradient), gradient.new_zeros(places**2, places**2)
    around = [tap for tap in range(taps) if tap != middle]
    for tap in around:
        moved = F.one_hot(shifts[tap], places + 1)[:, :-1].to(gradient)
        gram -= torch.kron(moved, small[tap] @ small[middle].T)
    gram = gram + gram.T
    gram += torch.kron(one, sum((small[tap] @ small[tap].T for tap in around), torch.zeros_like(centre)))
    kept = torch.bincount(shifts[around].flatten(), minlength=places + 1)[:-1].to(gradient)
    gram += torch.kron(torch.diag(kept), centre)
    gram.diagonal().add_(RIDGE * gram.diagonal().max())
    factor, basis = torch.linalg.cholesky(gram), gradient.new_ones(places**2, 1)
    for _ in range(INVERSIONS):
        basis = torch.cholesky_solve(basis / basis.norm(), factor)
    errors: Tensor = left @ torch.linalg.inv(basis.view(places, places))
    return errors


def _rounded(shares: Tensor) -> Tensor:
    """Return which cells [O, N] are on, whose shares of the errors are all alike while the others are 0."""
    values = shares.flatten()
    values = (values / values[values.abs().argmax()]).sort().values
    # how many lie within a ratio of each: most where cells are on
    above = torch.searchsorted(values, ALIKE * values) - torch.arange(len(values), device=values.device)
    above[values < 0.05] = 0  # what is left of cells that are off
    first = int(above.argmax())
    level = float(values[first : first + int(above[first])].median())
    scaled = shares / shares.flatten()[shares.abs().argmax()]
    return scaled / level > HALF
