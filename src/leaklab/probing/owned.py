"""An owner's network, handled so that it and the process stay as they are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from leaklab.records.errors import UserError


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """Let an owner's layers, e.g. dropout, draw from torch's own generators with a seed; these go on as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def with_state(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a copy of a model with the tensors of a state; what the state lacks stays as it is.

    Args:
        model: it is not changed.
        state: by the names of ``state_dict``; other names and shapes are refused.

    Raises:
        UserError: a tensor that the model has not, or has in another shape.
    """
    copy = deepcopy(model)
    own = copy.state_dict()
    mend = "describe the client with the model that it trained"
    for name, value in state.items():
        if name not in own:
            raise UserError(f"tensor '{name}' is none of the model's: {mend}")
        if value.shape != own[name].shape:
            shapes = f"{list(value.shape)}, and {list(own[name].shape)} in the model"
            raise UserError(f"tensor '{name}' has shape {shapes}: {mend}")
    copy.load_state_dict({**own, **state}, strict=True)
    return copy
