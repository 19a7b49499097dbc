"""What makes a job with torch the same again: named random draws (``draws``) as CPU tensors, and sums in one order."""

import os

import torch
from torch import Tensor

from leaklab.records.draws import Draws, key_of


class Stream:
    """The same numbers as ``Draws`` of the same name.

    All methods return CPU tensors; floats are float64 and are cast by whoever uses them.
    """

    def __init__(self, key: bytes) -> None:
        self._draws = Draws(key)

    def uniform(self, *shape: int) -> Tensor:
        """Draw from U[0, 1); no shape gives a scalar tensor."""
        return torch.as_tensor(self._draws.uniform(*shape))

    def number(self) -> float:
        """Draw one number from U[0, 1): the next draw of ``uniform``, without the cost of a tensor."""
        return self._draws.number()

    def normal(self, *shape: int) -> Tensor:
        """Draw from N(0, 1); no shape gives a scalar tensor."""
        return torch.as_tensor(self._draws.normal(*shape))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Draw integers from [low, high)."""
        return torch.as_tensor(self._draws.integers(low, high, *shape))

    def permutation(self, n: int) -> Tensor:
        """Draw a permutation of 0..n-1, shape [n], int64."""
        return torch.as_tensor(self._draws.permutation(n))


def stream(seed: int, *name: str | int) -> Stream:
    """Return the stream called ``name`` under ``seed``, e.g. ``stream(1024, "client", 3, "round", 0, "batches")``."""
    return Stream(key_of(seed, *name))


def repeat_on_gpu(device: str) -> None:
    """Let a GPU add in the same order in every run; a step calls it before anything is computed there.

    cuDNN's convolutions and some of torch's sums otherwise add as their threads arrive: two trainings of one seed part
    in their last digits, and end at other accuracies where training carries that on. What torch knows no such way for
    is named in a warning.

    Args:
        device: ``cpu``, of which nothing is asked, or ``cuda``.
    """
    if device == "cpu":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
