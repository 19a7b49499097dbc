"""ResNet-20 in evaluation mode taken apart from its head: the inputs of its convolutions, by linear algebra alone.

A 3x3 convolution's gradient is G_k = E S_k U for each of its nine taps k: errors E [O, N], shifts S_k [N, N] that are
known, inputs U [N, I]. In the last convolution neither E nor U is known. Where both have rank N the G_k / G_centre are
the shifts in an unknown basis, X (G_k / G_centre) = S_k X. That is linear in X, and as shifts to and fro generate all
matrices, X is unique but for a factor. The head tells E but for which cells are on, so that E is rounded and exact.
Below it errors are known, and each input is least squares, until there are more cells than equations.

Source: ours; a simultaneous similarity, by inverse iteration.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_input

QUIET, UNSURE = 3e-6, 1e-4
"""Shares of the largest input: below the first a cell counts as off, below the second this may be changed."""
CLOSED, MOST_FLIPS = 1e-6, 30
"""Relative residual from which on a fit counts as right; rounding to float32 leaves 1e-7 to 4e-7."""
RIDGE, INVERSIONS, ROUNDING = 1e-10, 8, 1e-6


@dataclass(frozen=True, eq=False)
class Peeled:
    """What was read.

    Attributes:
        maps: outputs [C, H, W] of ReLUs, by their place in the order of calls.
        fits: relative residual of each convolution's gradient, by its name, from the last one down.
        flips: cells whose state the residual corrected.
    """

    maps: dict[int, Tensor]
    fits: dict[str, float]
    flips: int


def scale_of(layer: nn.BatchNorm2d) -> Tensor:
    """Return what an error is multiplied by on its way back through a normalisation, [C, 1, 1]."""
    return (layer.weight / (layer.running_var + layer.eps).sqrt())[:, None, None]


def taps(height: int, width: int, stride: int = 1) -> Tensor:
    """Return which input each tap of a 3x3 convolution sees at each output, [9, N]; H W stands for padding."""
    grid = torch.arange(height * width, dtype=torch.float64).view(1, 1, height, width)
    return F.unfold(F.pad(grid, (1, 1, 1, 1), value=height * width), 3, stride=stride)[0].long()


def similar(gradient: Tensor, side: int) -> Tensor:
    """Return the errors [O, N] behind the gradient [O, I, 3, 3] of a convolution, up to one factor; N = side^2.

    The errors have rank N; the inputs may have less.
    """
    places, slices = side * side, gradient.flatten(2).permute(2, 0, 1)
    left = torch.linalg.svd(slices.permute(1, 0, 2).flatten(1), full_matrices=False)[0][:, :places]
    small = left.T @ slices
    _, sizes, back = torch.linalg.svd(small[4], full_matrices=False)
    rank = int((sizes > ROUNDING * sizes[0]).sum())
    small = small @ (back[:rank].T / sizes[:rank])
    centre = small[4] @ small[4].T
    one, gram = torch.eye(places).to(gradient), gradient.new_zeros(places**2, places**2)
    shifts, around = taps(side, side), (0, 1, 2, 3, 5, 6, 7, 8)
    for tap in around:
        gram -= torch.kron(F.one_hot(shifts[tap], places + 1)[:, :-1].to(gradient), small[tap] @ small[4].T)
    gram = gram + gram.T
    gram += torch.kron(one, sum(small[tap] @ small[tap].T for tap in around))
    kept = torch.bincount(shifts[list(around)].flatten(), minlength=places + 1)[:-1].to(gradient)
    gram += torch.kron(torch.diag(kept), centre)
    gram.diagonal().add_(RIDGE * gram.diagonal().max())
    factor, basis = torch.linalg.cholesky(gram), gradient.new_ones(places**2, 1)
    for _ in range(INVERSIONS):
        basis = torch.cholesky_solve(basis / basis.norm(), factor)
    return left @ torch.linalg.inv(basis.view(places, places))


def last_mask(network: nn.Module, gradients: dict[str, Tensor], unit: Tensor, side: int) -> Tensor:
    """Return which cells of the network's last map are on, [O, H, W].

    Where the last errors lack rank, the convolution before is turned round: its inputs, which have passed a shortcut,
    take the errors' part. They tell the last inputs up to a factor, if no normalisation shifts them, and these the
    errors by least squares.

    Args:
        network: the victim.
        gradients: by name.
        unit: gradient of the last convolution where errors are 1 or 0, [O, I, 3, 3].
        side: of the map, in cells.
    """
    sizes = torch.linalg.svdvals(unit.flatten(1))
    if int((sizes > ROUNDING * sizes[0]).sum()) >= side**2:
        errors = similar(unit, side)
    else:
        last, turned = network.layer3[-1], gradients["layer3.2.conv1.weight"].permute(1, 0, 2, 3).flip(2, 3)
        inputs = similar(turned, side).view(-1, side, side)
        hidden = last.bn1(last.conv1(inputs[None] * inputs.sum().sign())).clamp(min=0)
        patches = F.unfold(hidden, 3, padding=1)[0]
        errors = torch.linalg.lstsq(patches, unit.flatten(1).T).solution.T
    errors = errors / errors.flatten()[errors.abs().argmax()]
    # more than a fifth of the cells are on, and all of these are alike
    return (errors / errors.flatten().sort().values[int(0.8 * errors.numel())] > 0.5).view(-1, side, side)


def settled(
    gradient: Tensor, errors: Tensor, on: Tensor, unsure: Tensor, stride: int
) -> tuple[Tensor, Tensor, float, int]:
    """Return a convolution's input, the cells that are on, the relative residual, and how many were changed.

    The residual is infinite where the equations do not determine the input.

    Args:
        gradient: [O, I, 3, 3].
        errors: [O, H, W] of its output, wherever that is on.
        on: [O, H, W] bool, first guess.
        unsure: [O, H, W] bool, cells that may be changed: the one that promises most, while the residual falls.
        stride: of the convolution.
    """
    target, on, best = gradient.flatten(2).permute(0, 2, 1).flatten(0, 1), on.contiguous().clone(), None
    high, wide = (stride * side for side in errors.shape[1:])
    seen = taps(high, wide, stride).expand(len(errors), -1, -1)
    for flips in range(MOST_FLIPS + 1):
        sent = (errors * on).flatten(1)[:, None].expand(-1, 9, -1).contiguous()
        rows = errors.new_zeros(len(errors), 9, high * wide + 1).scatter_add_(2, seen, sent)[..., :-1].flatten(0, 1)
        span, sizes, back = torch.linalg.svd(rows, full_matrices=False)
        if len(sizes) < high * wide or sizes[-1] < ROUNDING * sizes[0]:
            empty = errors.new_zeros(gradient.shape[1], high, wide)
            return best or (empty, on, torch.inf, flips)
        found = (back.T / sizes) @ (span.T @ target)
        rest, found = target - rows @ found, found.T.reshape(-1, high, wide)
        residual = float(rest.norm() / target.norm())
        if best is not None and residual >= best[2]:
            break
        best = (found, on.clone(), residual, flips)
        patches = F.unfold(found[None], 3, padding=1, stride=stride)[0].view(len(found), 9, -1).permute(2, 1, 0)
        rest, span = rest.view(len(errors), 9, -1), span.view(len(errors), 9, -1)
        step = (errors * (1 - 2 * on.to(errors))).flatten(1)
        # what a new fit would take back of a change does not count
        kept = [(patches.transpose(1, 2) @ one).square().sum((1, 2)) for one in span]
        square = patches.square().sum((1, 2)) - torch.stack(kept)
        gain = 2 * step * torch.einsum("oki,pki->op", rest, patches) - step**2 * square
        gain = gain.masked_fill(~unsure.flatten(1), 0)
        if residual < CLOSED / 4 or float(gain.max()) <= 0:
            break
        on.view(-1)[gain.argmax()] ^= True
    assert best is not None
    return best


def states(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return which of the values that a ReLU gave are on, and which of them are in doubt."""
    most = values.max()
    return values > QUIET * most, values.abs() < UNSURE * most


def peeled(network: nn.Module, gradients: dict[str, Tensor], side: int) -> Peeled:
    """Return what the gradient of one image tells, down to the first block of the second stage or where a fit fails.

    Args:
        network: the victim, float64, evaluation mode.
        gradients: by name, of one image.
        side: of the last map, in cells.
    """
    error = (network.fc.weight.T @ gradients["fc.bias"] / side**2)[:, None, None].expand(-1, side, side)
    last = network.layer3[-1]
    unit = gradients["layer3.2.conv2.weight"] / (error[:, :1, :1] * scale_of(last.bn2))[..., None]
    on = last_mask(network, gradients, unit, side)
    unsure, maps, fits, flips, place = torch.zeros_like(on), dict[int, Tensor](), dict[str, float](), 0, 18
    for name in [f"layer{stage}.{block}" for stage in (3, 2) for block in (2, 1, 0)]:
        block = network.get_submodule(name)

        def fit(layer: str, at: Tensor, on: Tensor, unsure: Tensor, stride: int = 1) -> tuple[Tensor, ...]:
            nonlocal flips, place
            found, on, residual, more = settled(gradients[f"{layer}.weight"], at, on, unsure, stride)
            flips, place = flips + more, place - 1
            if residual < CLOSED:
                # rounding that is left of cells that are off counts as no activity
                fits[layer], maps[place] = residual, found * states(found)[0]
                if place + 1 in maps:
                    maps[place + 1] = maps[place + 1] * on
            return found, on, *states(found)

        hidden, on, *doubts = fit(f"{name}.conv2", error * scale_of(block.bn2), on, unsure)
        if place not in maps or name == "layer2.0":
            break
        after, stride = error * on, block.conv1.stride[0]
        before = conv2d_input((1, *hidden.shape), block.conv2.weight, (after * scale_of(block.bn2))[None], 1, 1)[0]
        before = before * scale_of(block.bn1)
        inputs, on, *doubts = fit(f"{name}.conv1", before, *doubts, stride)
        if place not in maps:
            break
        error = conv2d_input((1, *inputs.shape), block.conv1.weight, (before * on)[None], stride, 1)[0]
        with torch.enable_grad():
            at = inputs[None].clone().requires_grad_()
            short = at if block.downsample is None else block.downsample(at)
            error = error + torch.autograd.grad(short, at, after[None])[0][0]
        on, unsure = doubts
    return Peeled({key: value.clamp(min=0) for key, value in maps.items()}, fits, flips)
