"""Shards: runs of equal length of the training set sorted by label (LRP section 5.1)."""

import numpy as np

from leaklab.data.partitions.base import Integers


def divide(indices: Integers, sizes: Integers) -> list[Integers]:
    """Divide indices, in their order, into parts of the given sizes.

    Args:
        indices: int64, [N].
        sizes: int64, [parts], with sum N; at least one.
    """
    return np.split(indices, sizes.cumsum()[:-1])


def cut(labels: Integers, shard_size: int) -> list[Integers]:
    """Cut the indices, sorted by label and within a label in their order, into shards.

    Args:
        labels: int64, [N].
        shard_size: samples per shard; the last shard holds what is left and may be smaller.

    Returns:
        ceil(N / shard_size) index arrays that cover all samples.
    """
    return np.split(np.argsort(labels, kind="stable"), range(shard_size, len(labels), shard_size))


def whole(counts: Integers, shard_size: int, label: int) -> range:
    """Return the positions in ``cut`` of the full shards whose samples all carry ``label``.

    A shard across the border of two labels belongs to neither.

    Args:
        counts: [labels], number of samples of each label.
        shard_size: samples per shard.
        label: the label.
    """
    below = int(counts[:label].sum())
    return range(-(-below // shard_size), (below + int(counts[label])) // shard_size)
