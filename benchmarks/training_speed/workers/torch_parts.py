"""What the torch contestants share: this project's networks, data as tensors, positions of batches."""

import torch
from speed.costs import network_of
from torch import Tensor

from training_speed.made_up import noise, normalised
from training_speed.workloads import Workload


def parameter_count(workload: Workload) -> int:
    """Return how many weights the network has."""
    return sum(parameter.numel() for parameter in network_of(workload, 0).parameters())


def data_of(workload: Workload) -> tuple[Tensor, Tensor]:
    """Return normalised images and labels of all clients."""
    images, labels = noise(workload)
    return torch.from_numpy(normalised(images)), torch.from_numpy(labels)


def positions(workload: Workload, client: int, generator: torch.Generator) -> Tensor:
    """Return a client's samples of one round, [steps * batch]: epochs in random order, one after the other."""
    wanted, epochs = workload.local_steps * workload.batch_size, []
    whole = workload.samples // workload.batch_size * workload.batch_size  # a smaller last batch is dropped
    for _ in range(-(-wanted // whole)):
        epochs.append(torch.randperm(workload.samples, generator=generator)[:whole])
    return torch.cat(epochs)[:wanted] + client * workload.samples
