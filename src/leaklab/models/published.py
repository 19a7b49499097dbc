"""Published weights in a network of ours."""

from collections.abc import Callable, Mapping
from math import sqrt
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from leaklab.data.download import describe_weights, weights_path
from leaklab.models.normalisation import COUNTER, reset
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

# Published weights in torch's own format, read without running code.


def read_torch(path: Path) -> Any:
    """Return what a torch file holds, on the CPU: tensors, numbers, texts and plain containers of them.

    Raises:
        UserError: the file is missing or damaged, or holds anything else.
    """
    try:
        # weights_only runs no code
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: put the published weights there") from None
    except Exception as error:  # torch passes on whatever its readers of three formats stumble over
        raise UserError(f"{path} is damaged, or holds more than tensors: fetch it again") from error


Network = TypeVar("Network", bound=nn.Module)


def with_published(network: Network, path: Path, renamed: Mapping[str, str]) -> Network:
    """Return ``network`` with all parameters and running statistics of a published file; others are refused.

    Args:
        network: on the CPU; changed.
        path: checked by its checksum (``data/download.py::weights_path``).
        renamed: part of a name in the file -> what stands there in ours.

    Raises:
        UserError: the file is damaged or holds something else.
    """
    try:
        network.load_state_dict(_read(path, renamed), strict=True)
    except (RuntimeError, KeyError, AttributeError, TypeError, IndexError) as error:
        what = " ".join(str(error).split())[:100]
        raise UserError(f"{path} does not fit the network ({what}): choose the model that was published") from None
    return network


def published_state(name: str) -> dict[str, Tensor]:
    """Return the tensors of a key of ``config/weights.yaml`` by our names, without batch counters.

    Raises:
        UserError: the weights cannot be had, or the file holds something else.
    """
    path = weights_path(name)
    try:
        state = _read(path, describe_weights(name).renamed)
        return {key: value for key, value in state.items() if key.rpartition(".")[2] != COUNTER}
    except (KeyError, AttributeError, TypeError, IndexError) as error:
        raise UserError(f"{path} holds no state of a network ({error}): choose other weights") from None


def _read(path: Path, renamed: Mapping[str, str]) -> dict[str, Tensor]:
    saved = read_torch(path)
    within = next((part for part in ("state_dict", "model") if part in saved), None)
    state = {}
    for name, value in (saved if within is None else saved[within]).items():
        for theirs, ours in renamed.items():
            name = name.replace(theirs, ours)
        state[name] = value
    return state


# Initial weights, drawn from a named stream and never from torch's global generator.

Layer = nn.Linear | nn.Conv2d
Law = Callable[[Layer, Stream], list[Tensor]]


def _uniform(layer: Layer, stream: Stream, half_width: float) -> list[Tensor]:
    return [half_width * (2 * stream.uniform(*values.shape) - 1) for values in layer.parameters(recurse=False)]


def _pytorch(layer: Layer, stream: Stream) -> list[Tensor]:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weight and bias."""
    return _uniform(layer, stream, 1 / sqrt(layer.weight[0].numel()))


def _wide(layer: Layer, stream: Stream) -> list[Tensor]:
    """U(-0.5, 0.5) for weight and bias."""
    return _uniform(layer, stream, 0.5)


def _he(layer: Layer, stream: Stream) -> list[Tensor]:
    """N(0, 2/fan_out) for the kernels of a convolution, zero for its bias; affine layers as ``pytorch``."""
    if isinstance(layer, nn.Linear):
        return _pytorch(layer, stream)
    fan_out = layer.weight[:, 0].numel() // layer.groups
    kernels = sqrt(2 / fan_out) * stream.normal(*layer.weight.shape)
    return [kernels] if layer.bias is None else [kernels, torch.zeros(layer.bias.shape)]


LAWS: Mapping[str, Law] = {"pytorch": _pytorch, "wide": _wide, "he": _he}


def initialise(module: nn.Module, stream: Stream, scheme: str) -> None:
    """Draw every weight and bias of ``module`` in place, layer by layer in the order of its parameters.

    Args:
        module: a network whose parameters all belong to linear, convolution or batch normalisation layers.
        stream: the source of the draws (float64; cast to each parameter's dtype and device).
        scheme: ``pytorch`` for U(-1/sqrt(fan_in), 1/sqrt(fan_in)), ``wide`` for U(-0.5, 0.5), ``he`` for
            N(0, 2/fan_out) in convolutions without bias, as torchvision's ResNets start.

    Raises:
        UserError: unknown scheme, or a layer with parameters or buffers of another kind.
    """
    if scheme not in LAWS:
        raise UserError(f"unknown initialisation '{scheme}': choose from {', '.join(LAWS)}")
    for name, layer in module.named_modules():
        if isinstance(layer, nn.BatchNorm2d):
            reset(layer)
        elif isinstance(layer, Layer):
            _fill(layer, LAWS[scheme](layer, stream))
        elif [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]:
            raise UserError(
                f"layer '{name}' ({type(layer).__name__}) has no initialisation: use linear, conv or batch norm layers"
            )


def _fill(layer: Layer, values: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, drawn in zip(layer.parameters(recurse=False), values, strict=True):
            parameter.copy_(drawn)
