"""Training and test parts of a source that publishes only one; every class is split on its own."""

import numpy as np
import torch

from leaklab.data.readers.base import Labels
from leaklab.records.streams import Stream

TRAIN_SHARE = 0.8


def split_in_order(labels: Labels) -> tuple[Labels, Labels]:
    """Put the first 80 % of each class, in the given order, in the training part.

    The share is rounded down, but a class with a single sample is trained on rather than tested on.

    Args:
        labels: [N].

    Returns:
        The indices of the training and of the test part, each class after class.
    """
    return _split([np.flatnonzero(labels == label) for label in np.unique(labels)])


def split_at_random(labels: Labels, stream: Stream) -> tuple[Labels, Labels]:
    """Like ``split_in_order`` after shuffling each class; both parts keep the order of the source."""
    classes = [torch.as_tensor(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    train, test = _split([members[stream.permutation(len(members))].numpy() for members in classes])
    return np.sort(train), np.sort(test)


def _split(classes: list[Labels]) -> tuple[Labels, Labels]:
    cuts = [max(1, int(TRAIN_SHARE * len(members))) for members in classes]
    train = np.concatenate([members[:cut] for members, cut in zip(classes, cuts, strict=True)])
    test = np.concatenate([members[cut:] for members, cut in zip(classes, cuts, strict=True)])
    return train, test
