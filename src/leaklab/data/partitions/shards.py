"""Shards: runs of equal length of the training set sorted by label (LRP section 5.1)."""

import torch
from torch import Tensor


def cut(labels: Tensor, shard_size: int) -> list[Tensor]:
    """Cut the indices, sorted by label and within a label in their order, into shards.

    Args:
        labels: int64, [N].
        shard_size: samples per shard; the last shard holds what is left and may be smaller.

    Returns:
        ceil(N / shard_size) index tensors that cover all samples.
    """
    return list(torch.split(torch.argsort(labels, stable=True), shard_size))


def whole(counts: Tensor, shard_size: int, label: int) -> range:
    """Return the positions in ``cut`` of the full shards whose samples all carry ``label``.

    A shard across the border of two labels belongs to neither.

    Args:
        counts: [labels], number of samples of each label.
        shard_size: samples per shard.
        label: the label.
    """
    below = int(counts[:label].sum())
    return range(-(-below // shard_size), (below + int(counts[label])) // shard_size)
