"""Dealing a dataset to clients, and the artefact ``partition.json`` that says who holds what."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaklab.data.partitions.base import Partition
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.specs import PartitionSpec
from leaklab.records.streams import stream

ROOM = "data/partitions"


def deal(spec: PartitionSpec, labels: Tensor) -> dict[str, Any]:
    """Return the content of ``partition.json``.

    Args:
        spec: dataset and partition. Its seed belongs to the partition, not to a run: one deal serves any number of
            training seeds.
        labels: int64, [N], labels of the training part.

    Returns:
        ``spec``; ``clients``: for each client the indices into the training part; ``num_classes``: for each client
        its number of distinct labels.
    """
    partition: Partition = plugins.load(ROOM, spec.partition.name, spec.partition.settings)
    clients = partition.deal(labels, stream(spec.partition.seed, "partition", spec.partition.name))
    return {
        "spec": spec.model_dump(mode="json"),
        "clients": [indices.tolist() for indices in clients],
        "num_classes": [len(set(labels[indices].tolist())) for indices in clients],
    }


def read_clients(path: Path, samples: int) -> list[Tensor]:
    """Return each client's int64 indices from ``partition.json``.

    Args:
        path: the file.
        samples: size of the training part that the indices must fit.

    Raises:
        UserError: missing, damaged, or of another dataset.
    """
    try:
        clients = [torch.tensor(indices, dtype=torch.int64) for indices in read_json(path)["clients"]]
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is no partition: delete it and run snakemake again") from None
    everyone = torch.cat([*clients, torch.empty(0, dtype=torch.int64)])
    inside = len(everyone) and int(everyone.min()) >= 0 and int(everyone.max()) < samples
    if not inside or len(set(everyone.tolist())) < len(everyone):
        raise UserError(f"{path} does not fit a training part of {samples} samples: delete it and run snakemake again")
    return clients
