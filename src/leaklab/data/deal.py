"""Dealing a dataset to clients, and the artefact ``partition.json`` that says who holds what."""

from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from leaklab.data.partitions.base import GroupPartition, Integers, Partition
from leaklab.records import plugins
from leaklab.records.draws import Draws, draws
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.purity import watched
from leaklab.specs.training import PartitionSpec

# A test split for every client, with the classes in the proportions that the client trains on.


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


ROOM = "data/partitions"
OWN_DRAWS = "the draws that it is given"


def deal(
    spec: PartitionSpec, labels: Integers, groups: Integers | None = None, test_labels: Integers | None = None
) -> dict[str, Any]:
    """Return the content of ``partition.json``.

    Args:
        spec: dataset and partition. Its seed belongs to the partition, not to a run: one deal serves any number of
            training seeds.
        labels: int64, [N], labels of the training part.
        groups: int64, [N], who made each sample, for a partition by writer; None where the dataset does not say.
        test_labels: int64, labels of the test part; needed where the spec asks for ``tests``.

    Returns:
        ``spec``; ``clients``: for each client the indices into the training part that it trains on; ``validation``: for
        each client those that it sets aside; ``num_classes``: for each client the number of distinct labels that it
        trains on; ``tests``, only where the spec asks for them: for each client indices into the test part.

    Raises:
        UserError: the partition cannot be made with this dataset.
    """
    parts = [
        set_aside(indices, spec.partition.validation, draws(spec.partition.seed, "validation", client))
        for client, indices in enumerate(_dealt(spec, labels, groups))
    ]
    content: dict[str, Any] = {
        "spec": spec.model_dump(mode="json"),
        "clients": [training.tolist() for training, _ in parts],
        "validation": [validation.tolist() for _, validation in parts],
        "num_classes": [len(set(labels[training].tolist())) for training, _ in parts],
    }
    if spec.partition.tests:
        content["tests"] = _tests(spec, [labels[training] for training, _ in parts], test_labels)
    return content


def _tests(spec: PartitionSpec, trained: list[Integers], test_labels: Integers | None) -> list[list[int]]:
    if test_labels is None:
        raise UserError(f"partition.tests is {spec.partition.tests}, but {spec.dataset} has no test part: set it to 0")
    empty = [client for client, labels in enumerate(trained) if not len(labels)]
    if empty:
        raise UserError(f"client {empty[0]} of the partition has no samples: choose another partition")
    choice = spec.partition
    return [
        deal_tests(client, labels, test_labels, choice.tests, draws(choice.seed, "tests", client)).tolist()
        for client, labels in enumerate(trained)
    ]


def _dealt(spec: PartitionSpec, labels: Integers, groups: Integers | None) -> list[Integers]:
    choice = spec.partition
    partition: Partition | GroupPartition = plugins.load(ROOM, choice.name, choice.settings)
    own = draws(choice.seed, "partition", choice.name)
    if not isinstance(partition, GroupPartition):
        with watched(partition, call="deal", given={"labels": labels}, draws=OWN_DRAWS):
            return partition.deal(labels, own)
    if groups is None:
        raise UserError(
            f"partition {choice.name}: data set {spec.dataset} does not say who made its samples: use one that does "
            f"(femnist) or another partition"
        )
    with watched(partition, call="deal_groups", given={"groups": groups}, draws=OWN_DRAWS):
        return partition.deal_groups(groups, own)


def set_aside(indices: Integers, share: float, own: Draws) -> tuple[Integers, Integers]:
    """Split one client's samples at random into a training and a validation part.

    ``share`` times the number of samples, rounded to the nearest whole number (a half to the even one), are set aside,
    but at least one sample stays for training.

    Source: LRP section 5.1 (20 % of every client's samples).

    Args:
        indices: int64, [n], what the client was dealt.
        share: in [0, 1); 0 draws nothing.
        own: the client's own draws.

    Returns:
        The indices of the training and of the validation part; both keep the order of ``indices``.
    """
    count = max(0, min(round(share * len(indices)), len(indices) - 1))
    chosen = np.zeros(len(indices), dtype=np.bool_)
    if count:
        chosen[own.permutation(len(indices))[:count]] = True
    return indices[~chosen], indices[chosen]


def read_clients(path: Path, samples: int) -> list[Integers]:
    """Return each client's int64 indices from ``partition.json``.

    Args:
        path: the file.
        samples: size of the training part that the indices must fit.

    Raises:
        UserError: missing, damaged, or of another dataset.
    """
    try:
        clients = [np.fromiter(map(index, indices), dtype=np.int64) for indices in read_json(path)["clients"]]
    except (KeyError, TypeError, OverflowError):
        raise UserError(f"{path} is no partition: delete it and run snakemake again") from None
    everyone = np.concatenate([*clients, np.empty(0, dtype=np.int64)])
    inside = len(everyone) and int(everyone.min()) >= 0 and int(everyone.max()) < samples
    if not inside or len(set(everyone.tolist())) < len(everyone):
        raise UserError(f"{path} does not fit a training part of {samples} samples: delete it and run snakemake again")
    return clients
