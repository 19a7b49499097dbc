"""Named random draws as numpy arrays: every draw belongs to a name, never to the order in which things run.

The key is a hash of the name, so a result does not depend on how many clients, replicates or trials run together, nor
on the machine. The numbers come from numpy's Philox counter generator; ``streams`` offers the same ones as tensors, to
code that needs torch anyway.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray


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
