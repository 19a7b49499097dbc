"""The gradient of each sample's own loss, for defenses that clip per sample.

Networks of affine layers and convolutions need one backward pass for all samples' slopes by the layers' outputs; a
sample's gradient is their product with the layer's inputs. Other networks are lifted over their samples.
"""

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from leaklab.defenses.base import ClientContext
from leaklab.records.streams import Stream


def sample_gradients(network: nn.Sequential, batch: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Return the gradients of the samples' cross-entropies by parameter, [B, entries] each.

    Args:
        network: in evaluation state, so that samples do not mix.
        batch: ``images`` [B, C, H, W] as the network takes them, ``labels`` [B].
        names: parameters that are asked for.
    """
    found = _written_out(network, batch, names) if _has_formulas(network) else _lifted(network, batch, names)
    return {name: found[name].flatten(1) for name in names}


def _has_formulas(network: nn.Sequential) -> bool:
    """Whether all parameters belong to affine layers and plain convolutions directly in the network."""
    direct = [layer for layer in network.children() if isinstance(layer, nn.Linear) or _plain(layer)]
    return sum(len(list(layer.parameters())) for layer in direct) == len(list(network.parameters()))


def _plain(layer: nn.Module) -> bool:
    return (
        isinstance(layer, nn.Conv2d)
        and not isinstance(layer.padding, str)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
    )


def _written_out(network: nn.Sequential, batch: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    layers, inputs, outputs = [], [], []
    values = batch["images"]
    with torch.enable_grad():
        for name, layer in network.named_children():
            after = layer(values)
            if list(layer.parameters()):
                layers.append((name, layer))
                inputs.append(values.detach())
                outputs.append(after)
            values = after
        loss = F.cross_entropy(values, batch["labels"], reduction="sum")
        slopes = torch.autograd.grad(loss, outputs)
    found = {}
    for (name, layer), given, slope in zip(layers, inputs, slopes, strict=True):
        if f"{name}.weight" in names:
            if isinstance(layer, nn.Conv2d):
                found[f"{name}.weight"] = kernel_gradients(layer, given, slope)
            else:
                found[f"{name}.weight"] = slope[:, :, None] * given[:, None]
        if f"{name}.bias" in names:
            found[f"{name}.bias"] = slope.flatten(2).sum(2) if slope.dim() == 4 else slope
    return found


def kernel_gradients(layer: nn.Conv2d, inputs: Tensor, slope: Tensor) -> Tensor:
    """Return each sample's gradient by a convolution's kernels, [B, O, C, K, K].

    Args:
        layer: the convolution.
        inputs: [B, C, H, W].
        slope: of the sample's loss by the layer's output, [B, O, H', W'].
    """
    (high, wide), (samples, outputs) = layer.kernel_size, slope.shape[:2]
    found = slope.flatten(2) @ patches(layer, inputs, slope)
    return found.view(samples, outputs, high, wide, -1).permute(0, 1, 4, 2, 3)


def patches(layer: nn.Conv2d, inputs: Tensor, slope: Tensor) -> Tensor:
    """Return what each entry of a convolution's output sees, [B, H' W', K K C], in the order row, column, channel.

    They are copied from channels-last memory, in rows of K C numbers; ``F.unfold`` took four times as long.

    Args:
        layer: the convolution.
        inputs: [B, C, H, W].
        slope: anything of the output's shape, [B, O, H', W'].
    """
    assert not isinstance(layer.padding, str)
    (top, left), (down, right), (high, wide) = layer.padding, layer.stride, layer.kernel_size
    padded = F.pad(inputs, (left, left, top, top)).permute(0, 2, 3, 1).contiguous()
    batch, row, column, channel = padded.stride()
    samples, _, height, width = slope.shape
    shape = (samples, height, width, high, wide, padded.shape[-1])
    steps = (batch, row * down, column * right, row * layer.dilation[0], column * layer.dilation[1], channel)
    return padded.as_strided(shape, steps).reshape(samples, height * width, -1)


def _lifted(network: nn.Sequential, batch: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    held = {name: value.detach() for name, value in network.state_dict().items()}

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(network, {**held, **parameters}, (image[None],)), label[None])

    each: dict[str, Tensor] = vmap(grad(loss), in_dims=(None, 0, 0))(
        {name: held[name] for name in names}, batch["images"], batch["labels"]
    )
    return each


# The network of a client in its current step, built once a round: building one costs as much as half a step.

# a client's round is told by a private stream of its own, and ends when that is dropped
_NETWORKS: WeakKeyDictionary[Stream, nn.Sequential] = WeakKeyDictionary()


def network_of_round(context: ClientContext) -> nn.Sequential:
    """Return what ``context.network()`` does: a network with the current weights, in evaluation state.

    It is the same object in all steps of a client's round, so it is good until the next step only. Where more than the
    moving weights decides (running statistics, values behind the weights), it is built anew.

    Raises:
        UserError: no network is at hand.
    """
    of_round = context.stream("network")
    network = _NETWORKS.get(of_round)
    if network is None:
        network = context.network()
        names = {name for name, _ in network.named_parameters()}
        if names == set(context.weights) and not list(network.buffers()):
            _NETWORKS[of_round] = network
    else:
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.copy_(context.weights[name])
    return network
