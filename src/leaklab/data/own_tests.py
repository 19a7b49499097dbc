"""A test split for every client, with the classes in the proportions that the client trains on."""

import numpy as np

from leaklab.data.partitions.base import Integers
from leaklab.records.draws import Draws
from leaklab.records.errors import UserError


def counts_like(held: Integers, total: int) -> Integers:
    """Return how many of ``total`` samples each class gets, in the proportions of ``held``.

    Every class gets its exact share rounded down; what is left goes to the largest remainders, to the lower class
    where two are equal.

    Args:
        held: samples of each class that the client trains on, int64, [K], not all 0.
        total: samples to share out.

    Returns:
        int64, [K], with sum ``total``; 0 where ``held`` is 0.
    """
    whole, remainder = np.divmod(held * total, held.sum())
    order = np.argsort(-remainder, kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


def deal_tests(client: int, trained: Integers, test_labels: Integers, total: int, draws: Draws) -> Integers:
    """Return the positions of one client's test samples in the test part, ascending.

    Clients may share test samples; a client has none twice.

    Args:
        client: the client's number, for the message.
        trained: labels of the samples that the client trains on, [n], n > 0.
        test_labels: labels of the test part, [N].
        total: samples of the split.
        draws: the client's own draws.

    Raises:
        UserError: the test part has too few samples of a class.
    """
    classes = 1 + int(np.concatenate([trained, test_labels]).max())
    found = []
    for label, count in enumerate(counts_like(np.bincount(trained, minlength=classes), total).tolist()):
        there = np.flatnonzero(test_labels == label)
        if count > len(there):
            raise UserError(
                f"partition.tests is {total}: client {client} needs {count} test samples of class {label}, but there "
                f"are {len(there)}: lower it"
            )
        if count:
            found.append(there[draws.permutation(len(there))[:count]])
    return np.sort(np.concatenate(found))
