"""Published weights in a network of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from leaklab.records.errors import UserError

Network = TypeVar("Network", bound=nn.Module)


def with_published(network: Network, path: Path, renamed: Mapping[str, str]) -> Network:
    """Return ``network`` with all parameters and running statistics of a published file; others are refused.

    Args:
        network: on the CPU; changed.
        path: checked by its checksum (``records/weights.py::weights_path``).
        renamed: part of a name in the file -> what stands there in ours.

    Raises:
        UserError: the file holds something else.
    """
    # weights_only runs no code
    saved = torch.load(path, map_location="cpu", weights_only=True)
    try:
        state = {}
        for name, value in saved["state_dict"].items():
            for theirs, ours in renamed.items():
                name = name.replace(theirs, ours)
            state[name] = value
        network.load_state_dict(state, strict=True)
    except (RuntimeError, KeyError, AttributeError, TypeError, IndexError) as error:
        what = " ".join(str(error).split())[:100]
        raise UserError(f"{path} does not fit the network ({what}): choose the model that was published") from None
    return network
