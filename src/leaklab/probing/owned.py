"""An owner's network, handled so that it and the process stay as they are."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leaklab.records.errors import UserError


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """Let an owner's layers, e.g. dropout, draw from torch's own generators with a seed; these go on as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def all_drawing(seed: int, others: Sequence[Any] = ()) -> Iterator[None]:
    """Let an owner's functions draw with a seed from the global generators of torch, numpy and Python.

    All go on as they were afterwards.

    Args:
        seed: below 2^32.
        others: generators of torch, numpy or Python that the functions hold themselves.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - owners use it
    kept = [_state(one) for one in others]
    try:
        with drawing(seed):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            for one in others:
                _seed(one, seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        for one, state in zip(others, kept, strict=True):
            _restore(one, state)


GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
"""What functions draw from that do not use the global generators."""


def _state(one: Any) -> Any:
    if isinstance(one, np.random.Generator):
        return one.bit_generator.state
    return one.getstate() if isinstance(one, random.Random) else one.get_state()


def _restore(one: Any, state: Any) -> None:
    if isinstance(one, np.random.Generator):
        one.bit_generator.state = state
    elif isinstance(one, random.Random):
        one.setstate(state)
    else:
        one.set_state(state)


def _seed(one: Any, seed: int) -> None:
    if isinstance(one, np.random.Generator):
        one.bit_generator.state = type(one.bit_generator)(seed).state
    elif isinstance(one, torch.Generator):
        one.manual_seed(seed)
    else:
        one.seed(seed)


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
