"""Many models of one architecture in one forward and one backward pass.

``M`` models have stacked weights [M, ...]. Their batches are stacked too, [G, B, ...] with M = G * S: the S models
m = g * S ... (g + 1) * S - 1 see the same batch g (settings that share common random numbers), so the first layer is
one wide product and no image is copied S times. Afterwards the models stand side by side: as channels of one grouped
convolution (channels_last, which decides the speed on CPUs) or as the batch dimension of one matrix product.
Models never mix, so one backward pass of the summed losses gives every model its own gradient.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.optimizers import Weights, leaves_of
from leaklab.models.base import Shape
from leaklab.records.errors import UserError

Masks = Mapping[str, Tensor]


@dataclass(frozen=True)
class Activations:
    """Values between two layers.

    Attributes:
        values: [B, P * C, H, W] channels_last if ``planar``, else [P, F, B]; P is G before the first layer with
            weights and M after it.
        copies: P.
        planar: whether the values still have height and width.
    """

    values: Tensor
    copies: int
    planar: bool

    def map(self, function: Callable[[Tensor], Tensor]) -> "Activations":
        """Apply an elementwise or spatial function that treats channels alike."""
        return Activations(function(self.values), self.copies, self.planar)


class StackedNetwork:
    """The stacked form of an ``nn.Sequential`` of known layers; it holds no weights.

    Attributes:
        dropouts: the dropout layers by name; their masks are given from outside (see ``batches``).
        buffers: none; what is stacked has parameters only.
    """

    buffers: tuple[str, ...] = ()

    def __init__(self, network: nn.Sequential, input_shape: Shape) -> None:
        """Lift ``network``.

        Raises:
            UserError: a layer that cannot be lifted.
        """
        self._layers = [(name, _lifted(name, layer)) for name, layer in network.named_children()]
        self.dropouts = dropout_sites(network, input_shape)

    def logits(self, weights: Weights, images: Tensor, masks: Masks) -> Tensor:
        """Return the outputs [M, classes, B].

        Args:
            weights: parameters by name, [M, ...].
            images: normalised images [G, B, C, H, W]; M is a multiple of G.
            masks: factor of each value at a dropout layer, [G, B, ...], by layer name; a layer without a mask does
                nothing, as in evaluation.
        """
        values = Activations(_side_by_side(images), images.shape[0], planar=True)
        for name, layer in self._layers:
            values = layer(values, weights, masks.get(name))
        return values.values

    def losses(self, weights: Weights, batch: Batch) -> Tensor:
        """Return each model's mean cross-entropy over its batch, [M]."""
        logits = self.logits(weights, batch.images, batch.masks)
        targets = batch.labels.repeat_interleave(len(logits) // len(batch.labels), dim=0)
        return F.cross_entropy(logits, targets, reduction="none").mean(1)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return each model's mean cross-entropy [M] and its gradient by name, [M, ...]."""
        leaves = leaves_of(weights, wanted)
        losses = self.losses({**weights, **leaves}, batch)
        return losses.detach(), dict(zip(leaves, torch.autograd.grad(losses.sum(), list(leaves.values())), strict=True))


Lifted = Callable[[Activations, Weights, Tensor | None], Activations]


def _lifted(name: str, layer: nn.Module) -> Lifted:
    match layer:
        case nn.Linear():
            return partial(_linear, name)
        case nn.Conv2d() if layer.groups == 1 and layer.padding_mode == "zeros":
            return partial(_convolution, name, layer)
        case nn.LeakyReLU():
            leaky = partial(F.leaky_relu, negative_slope=layer.negative_slope)
            return lambda values, weights, mask: values.map(leaky)
        case nn.MaxPool2d() | nn.ReLU() | nn.Sigmoid():
            # pooling and activations treat all channels alike; an in-place ReLU would spoil the shared images
            function = F.relu if isinstance(layer, nn.ReLU) else layer
            return lambda values, weights, mask: values.map(function)
        case nn.Flatten() if layer.start_dim == 1 and layer.end_dim == -1:
            return lambda values, weights, mask: _flat(values)
        case nn.Dropout():
            return lambda values, weights, mask: values if mask is None else _masked(values, mask)
    raise UserError(
        f"layer '{name}' ({type(layer).__name__}) cannot be trained stacked: use Linear, Conv2d (groups=1), MaxPool2d, "
        "ReLU, LeakyReLU, Sigmoid, Flatten or Dropout, or add the layer to federated/forms/stacked.py"
    )


def can_be_stacked(network: nn.Sequential) -> bool:
    """Whether every layer of the network is known here; others train one by one (``one_by_one``)."""
    try:
        return all(_lifted(name, layer) is not None for name, layer in network.named_children())
    except UserError:
        return False


def _side_by_side(images: Tensor) -> Tensor:
    """[P, B, C, H, W] -> [B, P * C, H, W] in channels_last memory, in one copy."""
    copies, batch, channels, height, width = images.shape
    planes = copies * channels
    last = images.permute(1, 3, 4, 0, 2).contiguous()
    # with a single plane torch would label the same bytes as channels first, and the layers after it would be slow
    return last.as_strided((batch, planes, height, width), (height * width * planes, 1, width * planes, planes))


def _flat(values: Activations) -> Activations:
    if not values.planar:
        return values
    batch, channels, height, width = values.values.shape
    apart = values.values.view(batch, values.copies, channels // values.copies, height, width)
    by_sample = apart.transpose(0, 1).reshape(values.copies, batch, -1)
    return Activations(by_sample.transpose(1, 2), values.copies, planar=False)


def _linear(name: str, values: Activations, weights: Weights, mask: Tensor | None) -> Activations:
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    models, outputs, inputs = weight.shape
    inside = _flat(values).values
    # the models of one group are rows of one tall product; so neither they nor their gradients have to be moved
    tall = weight.reshape(values.copies, -1, inputs)  # generated weights do not lie side by side
    outside = tall @ inside if bias is None else torch.baddbmm(bias.reshape(values.copies, -1, 1), tall, inside)
    return Activations(outside.view(models, outputs, -1), models, planar=False)


def _convolution(
    name: str, layer: nn.Conv2d, values: Activations, weights: Weights, mask: Tensor | None
) -> Activations:
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    kernels = weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    biases = None if bias is None else bias.flatten()
    # one group per distinct input: the models that share a batch are output channels of the same group
    outside = F.conv2d(
        values.values, kernels, biases, layer.stride, layer.padding, layer.dilation, groups=values.copies
    )
    return Activations(outside, weight.shape[0], planar=True)


def _masked(values: Activations, mask: Tensor) -> Activations:
    repeated = mask.repeat_interleave(values.copies // mask.shape[0], dim=0)
    factors = _side_by_side(repeated) if values.planar else repeated.flatten(2).transpose(1, 2)
    return values.map(lambda inside: inside * factors)


def dropout_sites(network: nn.Sequential, input_shape: Shape) -> dict[str, DropoutSite]:
    """Return the dropout layers of a sequence of layers, by name."""
    sites = {}
    values = torch.zeros(1, *input_shape, dtype=next(network.parameters()).dtype)
    with torch.no_grad():
        for name, layer in network.named_children():
            if isinstance(layer, nn.Dropout):
                sites[name] = DropoutSite(layer.p, tuple(values.shape[1:]))
            else:
                values = layer(values)
    return sites
