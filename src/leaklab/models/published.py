"""Published weights in a network of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from leaklab.data.weights import describe_weights, weights_path
from leaklab.models.normalisation import COUNTER
from leaklab.records.errors import UserError

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
        path: checked by its checksum (``data/weights.py::weights_path``).
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
    state = {}
    for name, value in saved.get("state_dict", saved).items():
        for theirs, ours in renamed.items():
            name = name.replace(theirs, ours)
        state[name] = value
    return state
