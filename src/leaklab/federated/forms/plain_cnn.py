"""Convolutional networks without batch normalisation or dropout: backpropagation written out, one model at a time.

Such a network's step is a dozen library calls. Autograd adds nothing to them but a graph, copies of the gradients and
a fresh piece of memory for each.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.federated.forms.dense import affine
from leaklab.federated.forms.one_by_one import OneByOne

Back = Callable[[Tensor, bool], tuple[Tensor | None, dict[str, Tensor]]]
"""Derivative at a layer's output, and whether that at its input is asked for -> the latter and the layer's gradients.

It may change the derivative that it gets."""


def is_plain_cnn(network: nn.Sequential) -> bool:
    """Whether ``PlainCnn`` has formulas for all layers, and the first one is a convolution."""
    layers = list(network)
    return bool(layers) and isinstance(layers[0], nn.Conv2d) and all(map(_is_known, layers))


class PlainCnn(OneByOne):
    """A network of Conv2d, MaxPool2d, (leaky) ReLU, Flatten and Linear layers; see ``OneByOne`` for its interface."""

    def __init__(self, network: nn.Sequential) -> None:
        """Wrap ``network``; see ``is_plain_cnn``."""
        super().__init__(network)
        self._layers = list(network.named_children())

    @property
    def layers(self) -> list[tuple[str, nn.Module]]:
        """The layers by name; they hold no weights."""
        return self._layers

    @torch.no_grad()
    def _gradient(
        self, weights: Mapping[str, Tensor], images: Tensor, labels: Tensor, wanted: Collection[str] | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        names = [name for name in weights if wanted is None or name in wanted]
        values, backs = channels_last_images(images), []
        for name, layer in self._layers:
            values, back = _FORWARD[type(layer)](layer, _Parameters.of(weights, name), values)
            backs.append((name, back))
        loss, delta = _cross_entropy(values, labels)
        gradients: dict[str, Tensor] = {}
        asked = {name.rpartition(".")[0] for name in names}
        lowest = min(index for index, (name, _) in enumerate(self._layers) if name in asked)  # nothing below is needed
        for index in range(len(backs) - 1, lowest - 1, -1):
            name, back = backs[index]
            inner, own = back(delta, index > lowest)
            gradients |= {f"{name}.{kind}": value for kind, value in own.items()}
            if inner is not None:
                delta = inner
        return loss, {name: gradients[name] for name in names}


def channels_last_images(images: Tensor) -> Tensor:
    """Return images [B, C, H, W] that lie channels last in memory, and say so.

    With one channel both orders are the same bytes, and a convolution takes the one that its kernels have: with usual
    kernels the pooling after it takes seven times as long. Strides decide.
    """
    last = images.contiguous(memory_format=torch.channels_last)
    channels, high, wide = last.shape[1:]
    return last.as_strided(last.shape, (channels * high * wide, 1, wide * channels, channels))


@dataclass(frozen=True)
class _Parameters:
    """Weight and bias of one layer; None where it has none."""

    weight: Tensor | None
    bias: Tensor | None

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], name: str) -> "_Parameters":
        return cls(weights.get(f"{name}.weight"), weights.get(f"{name}.bias"))


def _convolution(layer: nn.Conv2d, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    kernel, geometry = own.weight, tuple(_pair(size) for size in (layer.stride, layer.padding, layer.dilation))
    assert kernel is not None

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        wanted = [inner, True, own.bias is not None]
        bias_size = None if own.bias is None else [len(kernel)]
        at_input, of_kernel, of_bias = torch.ops.aten.convolution_backward(
            delta, values, kernel, bias_size, *geometry, False, [0, 0], layer.groups, wanted
        )
        return at_input, {"weight": of_kernel} if of_bias is None else {"weight": of_kernel, "bias": of_bias}

    stride, padding, dilation = geometry
    return F.conv2d(values, kernel, own.bias, stride, padding, dilation, layer.groups), back


def _affine(layer: nn.Linear, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    weight = own.weight
    assert weight is not None

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        gradients = {"weight": affine(delta.T.contiguous(), values.T, None)}
        if own.bias is not None:
            gradients["bias"] = delta.sum(0)
        return affine(delta, weight.T, None) if inner else None, gradients

    return affine(values, weight, own.bias), back


def _max_pool(layer: nn.MaxPool2d, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    geometry = [_pair(size) for size in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)]
    output, places = torch.ops.aten.max_pool2d_with_indices(values, *geometry, layer.ceil_mode)

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        given = torch.ops.aten.max_pool2d_with_indices_backward(delta, values, *geometry, layer.ceil_mode, places)
        return given, {}

    return output, back


def _relu(layer: nn.ReLU, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    # no layer before needs its own output again, and the first one is never a ReLU
    output = values.relu_()

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        return delta.mul_(output > 0), {}

    return output, back


def _leaky_relu(layer: nn.LeakyReLU, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    # its slope is positive, so that the output has the input's sign
    output, slope = F.leaky_relu_(values, layer.negative_slope), layer.negative_slope

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        return torch.ops.aten.leaky_relu_backward(delta, output, slope, True), {}

    return output, back


def _flatten(layer: nn.Flatten, own: _Parameters, values: Tensor) -> tuple[Tensor, Back]:
    shape = values.shape

    def back(delta: Tensor, inner: bool) -> tuple[Tensor | None, dict[str, Tensor]]:
        return delta.view(shape).contiguous(memory_format=torch.channels_last), {}

    return values.flatten(1).contiguous(), back


_FORWARD: Mapping[type[nn.Module], Callable[..., tuple[Tensor, Back]]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _affine,
    nn.MaxPool2d: _max_pool,
    nn.ReLU: _relu,
    nn.LeakyReLU: _leaky_relu,
    nn.Flatten: _flatten,
}


def forward(name: str, layer: nn.Module, weights: Mapping[str, Tensor], values: Tensor) -> tuple[Tensor, Back]:
    """Return a layer's outputs and its backward pass, in which a ReLU may have changed ``values``."""
    return _FORWARD[type(layer)](layer, _Parameters.of(weights, name), values)


def _is_known(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if isinstance(layer, nn.LeakyReLU):
        return layer.negative_slope > 0
    return type(layer) in _FORWARD


def _pair(size: int | str | tuple[int, ...]) -> list[int]:
    return [size, size] if isinstance(size, int) else [int(number) for number in size]


def _cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy and its derivative at the logits [B, K]."""
    logs = torch.log_softmax(logits, 1)
    loss = F.nll_loss(logs, labels)
    delta = logs.exp_()
    delta[torch.arange(len(labels), device=labels.device), labels] -= 1
    return loss, delta.div_(len(labels))
