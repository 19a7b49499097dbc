"""A network of two convolutions with max pooling, taken apart: what each stage does, and what its head gives away.

A stage is a convolution, ReLU and max pooling, the last two in any order. Of one sample its gradient is bilinear in
its input and in where the errors of its output went: each cell of the pool sends its error to one of its places, the
winner, and none of a cell whose output is 0. The affine layer behind both stages tells that output and its error::

    f = sum_j db_j dW_j / sum_j db_j^2,        E = W^T db

with its gradients dW, db and its weights W. A factor that the client hides is a factor on E and on all gradients.

Source: f is that of "Inverting Gradients", proposition 3.1; the rest is the chain rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.attacks.labels.head import layer_input
from leaklab.models.normalisation import Normalisation
from leaklab.observations.base import Observation
from leaklab.records.errors import UserError

FORM = "two convolutions, each with ReLU and max pooling, and affine layers"
QUIET = 1e-6
"""Share of the largest output below which a cell's output is 0 but for rounding."""
ONE_SAMPLE = 1e-4
"""Relative misfit of the head's gradient, and of the convolution's bias, that rounding to float32 may leave."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A convolution with ReLU and max pooling; positions of its map and cells of its pool are counted row by row.

    Attributes:
        layer: the convolution.
        shape: of its input, (I, H, W).
        cells: positions of the map among which each cell of the pool chooses, [N, P].
        size: how many positions a map has, M.
        sides: height and width of the pooled map; N is their product.
    """

    layer: nn.Conv2d
    shape: tuple[int, int, int]
    cells: Tensor
    size: int
    sides: tuple[int, int]

    @property
    def weight(self) -> Tensor:
        """The kernels, [O, K]."""
        return self.layer.weight.flatten(1)

    @property
    def bias(self) -> Tensor:
        """One number a filter, [O]; 0 without a bias."""
        own = self.layer.bias
        return self.layer.weight.new_zeros(len(self.layer.weight)) if own is None else own

    def patches(self, inputs: Tensor) -> Tensor:
        """Return what the kernels see of inputs [S, I, H, W] at each position, [S, K, M]."""
        return F.unfold(inputs, **self._geometry())

    def overlaid(self, patches: Tensor) -> Tensor:
        """Return the sum of patches [S, K, M] in their places, [S, I, H, W]: the adjoint of ``patches``."""
        return F.fold(patches, self.shape[1:], **self._geometry())

    def maps(self, patches: Tensor) -> Tensor:
        """Return the convolution of patches [S, K, M], [S, O, M]."""
        return self.weight @ patches + self.bias[:, None]

    def choices(self, maps: Tensor) -> Tensor:
        """Return the numbers among which each cell chooses, [..., M] -> [..., N, P]."""
        return maps[..., self.cells]

    def sent_to(self, shares: Tensor, errors: Tensor) -> Tensor:
        """Return the error at every position, [S, O, M], of cells whose error [S, O, N] goes to places by ``shares``.

        Args:
            shares: [S, O, N, P].
            errors: [S, O, N], or [O, N] of all.
        """
        parts = (shares * errors[..., None]).flatten(-2)
        empty = parts.new_zeros(*parts.shape[:-1], self.size)
        return empty.index_add(-1, self.cells.flatten(), parts)

    def of_winners(self, winners: Tensor, errors: Tensor) -> Tensor:
        """Return the error at every position, [O, M], where each cell's goes to its winner.

        Args:
            winners: [O, N] in 0..P-1.
            errors: [O, N].
        """
        return self.sent_to(F.one_hot(winners, self.cells.shape[1]).to(errors), errors)

    @cached_property
    def sources(self) -> Tensor:
        """Which number of a flat input each entry of a patch is, [K, M]; C H W stands for padding."""
        count = prod(self.shape)
        numbers = torch.arange(1, count + 1, dtype=torch.float64, device=self.weight.device)
        found = self.patches(numbers.view(1, *self.shape))[0].long()
        return torch.where(found == 0, count, found - 1)

    def gradient_rows(self, at: Tensor) -> Tensor:
        """Return the kernels' gradient as a linear function of one channel of the input, [O k, H W].

        It is the same for every channel; k is the number of entries of a kernel's channel.

        Args:
            at: errors of all positions, [O, M].
        """
        channels, pixels = self.shape[0], self.shape[1] * self.shape[2]
        entries = self.weight.shape[1] // channels
        padding = prod(self.shape)
        sources = self.sources[:entries].clone()
        sources[sources == padding] = pixels
        rows = at.new_zeros(len(at), entries, pixels + 1)
        rows.scatter_add_(2, sources.expand(len(at), -1, -1), at[:, None].expand(-1, entries, -1).contiguous())
        return rows[..., :-1].reshape(-1, pixels)

    def by_channel(self, gradient: Tensor) -> Tensor:
        """Return the gradient of the kernels [O, K] as ``gradient_rows`` orders it, [O k, I]."""
        channels = self.shape[0]
        return gradient.view(len(gradient), channels, -1).transpose(1, 2).reshape(-1, channels)

    def _geometry(self) -> dict[str, tuple[int, ...]]:
        layer = self.layer
        assert not isinstance(layer.padding, str)  # refused when the stage is made
        return {
            "kernel_size": tuple(layer.kernel_size),
            "stride": tuple(layer.stride),
            "padding": tuple(layer.padding),
            "dilation": tuple(layer.dilation),
        }


@dataclass(frozen=True, eq=False)
class Gradient:
    """What one sample's update tells of a stage, up to the client's factor.

    Attributes:
        weight: gradient of the kernels, [O, K].
        bias: of the bias, [O]; None where there is none, or the client keeps it.
    """

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class Taken:
    """A network taken apart, and what one update tells of its parts.

    Attributes:
        stages: both, in the order of the network.
        gradients: of both.
        values: output of the second stage, [O, N]; 0 where it is quiet.
        errors: the loss's derivative for it, [O, N]; 0 where it is quiet.
        rounding: relative misfit of what the head tells twice: how exact the update is.
    """

    stages: tuple[Stage, Stage]
    gradients: tuple[Gradient, Gradient]
    values: Tensor
    errors: Tensor
    rounding: float


def stages_of(network: nn.Sequential, shape: tuple[int, int, int], attack: str) -> tuple[dict[str, Stage], str]:
    """Return both stages by the names of their convolutions, and the name of the affine layer behind them.

    Args:
        network: a victim with its weights set.
        shape: (C, H, W) of an image.
        attack: its name, for messages.

    Raises:
        UserError: the network is not of the form; the message names the first layer that is not.
    """
    layers = iter([(name, layer) for name, layer in network.named_children() if not isinstance(layer, Normalisation)])
    stages: dict[str, Stage] = {}
    for _ in range(2):
        name, layer = next(layers, ("its end", None))
        pair = [next(layers, ("its end", None)) for _ in range(2)]
        pools = [one for _, one in pair if isinstance(one, nn.MaxPool2d)]
        if not isinstance(layer, nn.Conv2d) or not pools or not any(isinstance(one, nn.ReLU) for _, one in pair):
            wrong = name if not isinstance(layer, nn.Conv2d) else pair[0][0] + " and " + pair[1][0]
            raise UserError(f"attack '{attack}' needs {FORM}; '{wrong}' is in the way: choose another attack or model")
        stages[name] = _stage(layer, pools[0], shape, f"attack '{attack}': '{name}'")
        shape = (layer.out_channels, *stages[name].sides)
    flatten, affine = next(layers, ("its end", None)), next(layers, ("its end", None))
    if not isinstance(flatten[1], nn.Flatten) or not isinstance(affine[1], nn.Linear) or affine[1].bias is None:
        raise UserError(
            f"attack '{attack}' needs {FORM}; '{flatten[0]}' and '{affine[0]}' are no flattening and affine layer with "
            "a bias: choose another attack or model"
        )
    return stages, affine[0]


def _stage(layer: nn.Conv2d, pool: nn.MaxPool2d, shape: tuple[int, int, int], who: str) -> Stage:
    """Return the stage of a convolution and its pool.

    Raises:
        UserError: groups, a padding that is no number or not of zeros, or a pool that pads or rounds up.
    """
    padded = isinstance(layer.padding, str) or layer.padding_mode != "zeros"
    if layer.groups > 1 or padded or pool.ceil_mode or any(_pair(pool.padding)):
        raise UserError(
            f"{who} has groups, another padding than so many zeros, or a pool that pads or rounds up, which cannot be "
            "read: choose another attack or model"
        )
    height, width = layer(layer.weight.new_zeros(1, *shape)).shape[-2:]
    numbers = torch.arange(height * width, device=layer.weight.device)
    window = {
        "kernel_size": _pair(pool.kernel_size),
        "stride": _pair(pool.stride),
        "dilation": _pair(pool.dilation),
    }
    # positions are exact in float64
    cells = F.unfold(numbers.double().view(1, 1, height, width), **window)[0].T.long()
    sides = pool(layer.weight.new_zeros(1, 1, height, width)).shape[-2:]
    return Stage(layer, shape, cells.contiguous(), height * width, (sides[0], sides[1]))


def _pair(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def taken_apart(observation: Observation, network: nn.Sequential, shape: tuple[int, ...], attack: str) -> list[Taken]:
    """Return the parts of every trial.

    Args:
        observation: T trials, gradients up to a factor, in float64.
        network: the victim in evaluation state, in float64.
        shape: (C, H, W) of an image.
        attack: its name, for messages.

    Raises:
        UserError: the network is not of the form, the client keeps a layer of it to itself, or an update is not that
            of one sample.
    """
    stages, affine = stages_of(network, (shape[0], shape[1], shape[2]), attack)
    needed = [f"{name}.weight" for name in (*stages, affine)] + [f"{affine}.bias"]
    kept = [name for name in needed if name not in observation.update]
    if kept:
        raise UserError(f"attack '{attack}': the client keeps '{kept[0]}' to itself: choose another attack or defense")
    return list(_trials(observation, stages, affine, attack))


def _trials(observation: Observation, stages: dict[str, Stage], affine: str, attack: str) -> Iterator[Taken]:
    update = observation.update
    weight, bias = update[f"{affine}.weight"], update[f"{affine}.bias"]
    found = layer_input(weight, bias)
    first, second = stages.values()
    cells = (len(second.weight), prod(second.sides))
    for row, trial in enumerate(observation.trials):
        gradients = [
            Gradient(update[f"{name}.weight"][row].flatten(1), _row(update.get(f"{name}.bias"), row)) for name in stages
        ]
        values = found[row].clamp(min=0).view(cells)
        active = values > QUIET * values.max()
        errors = (bias[row] @ observation.weights[f"{affine}.weight"]).view(cells) * active
        misfit = float((weight[row] - torch.outer(bias[row], found[row])).norm() / weight[row].norm())
        if gradients[1].bias is not None:
            expected = gradients[1].bias
            misfit = max(misfit, float((errors.sum(1) - expected).norm() / expected.norm()))
        if not misfit < ONE_SAMPLE:
            raise UserError(
                f"attack '{attack}': the update of trial {trial} is not that of one sample without noise ({misfit:.1e} "
                f"of the head's gradient speak against it, {ONE_SAMPLE} may): choose annealed-map"
            )
        yield Taken((first, second), (gradients[0], gradients[1]), values * active, errors, misfit)


def _row(values: Tensor | None, row: int) -> Tensor | None:
    return None if values is None else values[row]
