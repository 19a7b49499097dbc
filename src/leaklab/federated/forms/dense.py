"""Many models of affine layers (logistic regression, MLP): explicit backpropagation with the update folded in.

Such models are so small that autograd and the writing and reading of gradients cost more than the arithmetic. The
gradient of an affine layer is a product delta x^T, so a plain step W <- (1 - rate decay) W - rate delta x^T is one
product that accumulates into W. Where a step is anything else (momentum, Adam, a defense that changes gradients),
``stacked`` does the work; it is also the oracle of the tests.
"""

import ctypes
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.federated.batches import Batch
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.federated.optimizers import Weights
from leaklab.models.base import Shape


@dataclass(frozen=True)
class _Saved:
    """What the backward pass needs of one affine layer: its name, its inputs and the factor that made them.

    Attributes:
        inputs: [P, F, B]; P is G for the first layer and M after it.
        factor: derivative of these inputs by the outputs of the layer before, [M, F, B]; None for the first layer.
    """

    layer: str
    inputs: Tensor
    factor: Tensor | None


class DenseNetwork:
    """The stacked form of Flatten, Linear, ReLU and Dropout layers in any order that begins with a Linear one.

    Attributes:
        dropouts: the dropout layers by name.
        buffers: none.
    """

    buffers: tuple[str, ...] = ()

    def __init__(self, network: nn.Sequential, input_shape: Shape) -> None:
        """Lift ``network``; see ``is_dense``."""
        self._stacked = StackedNetwork(network, input_shape)
        self.dropouts = self._stacked.dropouts
        self._steps = [(name, layer) for name, layer in network.named_children() if not isinstance(layer, nn.Flatten)]

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B]; see ``StackedNetwork.logits``."""
        return self._forward(weights, images, masks)[0]

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return losses and gradients for steps that are not plain; see ``StackedNetwork.gradients``."""
        return self._stacked.gradients(weights, batch, wanted)

    @torch.no_grad()
    def descend(self, weights: Weights, batch: Batch, rates: Tensor, weight_decay: float) -> Tensor:
        """Do one plain step of gradient descent in place and return the losses [M] before it.

        Args:
            weights: by name, [M, ...], contiguous; changed.
            batch: of G groups, M a multiple of G.
            rates: [M].
            weight_decay: its product with the weights is added to the gradient.
        """
        logits, saved = self._forward(weights, batch.images, batch.masks)
        losses, delta = _cross_entropy(logits, batch.labels)
        rates = rates.view(-1, 1, 1)
        for index in range(len(saved) - 1, -1, -1):
            part = saved[index]
            weight = weights[f"{part.layer}.weight"]
            # the inner layers' deltas need the weights before the step
            before = None if part.factor is None else torch.bmm(weight.transpose(1, 2), delta).mul_(part.factor)
            _step(weights, part, delta.mul_(rates), 1 - weight_decay * rates if weight_decay else None)
            delta = before if before is not None else delta
        return losses

    def _forward(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> tuple[Tensor, list[_Saved]]:
        values, factor = images.flatten(2).transpose(1, 2), None
        saved: list[_Saved] = []
        for name, layer in self._steps:
            if isinstance(layer, nn.Linear):
                saved.append(_Saved(name, values, factor))
                values, factor = _affine(weights, name, values), None
            elif isinstance(layer, nn.ReLU):
                values = values.relu_()
                factor = _product(factor, (values > 0).to(values.dtype))
            elif name in masks:
                mask = masks[name].flatten(2).transpose(1, 2)
                mask = mask.repeat_interleave(len(values) // len(mask), 0)
                values = values.mul_(mask)
                factor = _product(factor, mask)
        return values, saved


def is_dense(network: nn.Sequential) -> bool:
    """Whether ``DenseNetwork`` can train the network: affine layers with biases, the first one first."""
    layers = [layer for layer in network if not isinstance(layer, nn.Flatten)]
    known = all(isinstance(layer, nn.ReLU | nn.Dropout) or _biased(layer) for layer in layers)
    return known and bool(layers) and _biased(layers[0]) and _biased(layers[-1])


def _biased(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear) and layer.bias is not None


def _affine(weights: Weights, name: str, inside: Tensor) -> Tensor:
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    models, outputs, inputs = weight.shape
    # the models that share a batch are rows of one tall product
    groups = len(inside)
    # generated weights do not lie side by side
    outside = torch.baddbmm(bias.reshape(groups, -1, 1), weight.reshape(groups, -1, inputs), inside)
    return outside.view(models, outputs, -1)


def _step(weights: Weights, part: _Saved, delta: Tensor, decay: Tensor | None) -> None:
    weight, bias = weights[f"{part.layer}.weight"], weights[f"{part.layer}.bias"]
    if decay is not None:
        weight.mul_(decay)
        bias.mul_(decay[:, :, 0])
    groups, inputs, batch = part.inputs.shape
    tall = weight.view(groups, -1, inputs)
    tall.baddbmm_(delta.view(groups, -1, batch), part.inputs.transpose(1, 2), alpha=-1)
    bias.sub_(delta.sum(2))


def _cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean losses [M] of logits [M, classes, B] and their derivative by the logits."""
    models, _, batch = logits.shape
    targets = labels.repeat_interleave(models // len(labels), 0).unsqueeze(1)
    log_probabilities = torch.log_softmax(logits, 1)
    losses = log_probabilities.gather(1, targets).mean((1, 2)).neg_()
    delta = log_probabilities.exp_().div_(batch)
    return losses, delta.scatter_add_(1, targets, delta.new_full((1, 1, 1), -1 / batch).expand(models, 1, batch))


def _product(first: Tensor | None, second: Tensor) -> Tensor:
    return second if first is None else first * second


# Products of affine layers on the CPU by whichever library is faster for their size.

WIDE = 2**22
"""From so many multiplications on the other library is asked: a bound between the narrow and the wide layers of this
project's networks (32 samples through 512 x 10 and through 1024 x 512 weights), not a measured crossing."""


def affine(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return rows W^T + b without a graph.

    Args:
        rows: [N, K], contiguous.
        weight: [O, K], contiguous or the transpose of such a tensor.
        bias: [O] or None.

    Returns:
        [N, O].
    """
    if len(rows) * weight.numel() >= WIDE and has_fast_product(rows):
        answer: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
        return answer
    return F.linear(rows, weight, bias)


def has_fast_product(like: Tensor) -> bool:
    """Whether the other library can multiply tensors like this one."""
    usable = like.dtype == torch.float32 and like.device.type == "cpu" and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return usable and hasattr(torch.ops.mkldnn, "_linear_pointwise")


# Freed memory that the process keeps, because the next training step asks for the same pieces again.

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
LARGEST_KEPT = 2**30
NEVER = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to hand freed pieces below 1 GiB out again, and return whether it will.

    By default large pieces go back to the operating system, which clears them for every step anew: a sixth of a step's
    time in the MNIST CNN. Affects the whole process; does nothing where the C library is not glibc.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # musl has the name but not the function's meaning: it answers 0
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, LARGEST_KEPT)) and bool(mallopt(TRIM_THRESHOLD, NEVER))
