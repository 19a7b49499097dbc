"""Named random draws (``draws``) as CPU tensors, for code that computes with torch."""

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


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


# Named random draws as numpy arrays: every draw belongs to a name, never to the order in which things run.
#
# The key is a hash of the name, so a result does not depend on how many clients, replicates or trials run together, nor
# on the machine. The numbers come from numpy's Philox counter generator.


class Draws:
    """An independent sequence of draws; floats are float64."""

    def __init__(self, key: bytes) -> None:
        self._generator = np.random.Generator(np.random.Philox(key=np.frombuffer(key, dtype=np.uint64)))

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        """Draw from U[0, 1)."""
        return np.asarray(self._generator.random(shape))

    def number(self) -> float:
        """Draw one number from U[0, 1): the next draw of ``uniform``, without the cost of an array."""
        return float(self._generator.random())

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Draw from N(0, 1)."""
        return np.asarray(self._generator.standard_normal(shape))

    def integers(self, low: int, high: int, *shape: int) -> NDArray[np.int64]:
        """Draw integers from [low, high)."""
        return np.asarray(self._generator.integers(low, high, shape))

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Draw a permutation of 0..n-1, shape [n]."""
        return self._generator.permutation(n)


def key_of(seed: int, *name: str | int) -> bytes:
    """Return the key of what is called ``name`` under ``seed``."""
    text = "\x1f".join([str(seed), *(str(part) for part in name)])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def draws(seed: int, *name: str | int) -> Draws:
    """Return the draws called ``name`` under ``seed``, e.g. ``draws(7, "partition", "iid")``."""
    return Draws(key_of(seed, *name))
