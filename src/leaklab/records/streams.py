"""Named random streams: every draw belongs to a name, never to the order in which jobs or clients run.

A stream's key is a hash of its name, so a result does not depend on how many clients, replicates or trials run
together, nor on the machine: the numbers come from numpy's Philox counter generator, not from torch's device
generators.
"""

import hashlib

import numpy as np
import torch
from torch import Tensor


class Stream:
    """An independent sequence of draws.

    All methods return CPU tensors; floats are float64 and are cast by whoever uses them.
    """

    def __init__(self, key: bytes) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=np.frombuffer(key, dtype=np.uint64)))

    def uniform(self, *shape: int) -> Tensor:
        """Draw from U[0, 1); no shape gives a scalar tensor."""
        return torch.as_tensor(self._generator.random(shape))

    def number(self) -> float:
        """Draw one number from U[0, 1): the next draw of ``uniform``, without the cost of a tensor."""
        return float(self._generator.random())

    def normal(self, *shape: int) -> Tensor:
        """Draw from N(0, 1); no shape gives a scalar tensor."""
        return torch.as_tensor(self._generator.standard_normal(shape))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Draw integers from [low, high)."""
        return torch.as_tensor(self._generator.integers(low, high, shape))

    def permutation(self, n: int) -> Tensor:
        """Draw a permutation of 0..n-1, shape [n], int64."""
        return torch.as_tensor(self._generator.permutation(n))


def stream(seed: int, *name: str | int) -> Stream:
    """Return the stream called ``name`` under ``seed``, e.g. ``stream(1024, "client", 3, "round", 0, "batches")``."""
    text = "\x1f".join([str(seed), *(str(part) for part in name)])
    return Stream(hashlib.blake2b(text.encode(), digest_size=16).digest())
