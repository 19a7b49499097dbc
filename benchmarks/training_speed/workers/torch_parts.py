"""What the torch contestants share: this project's networks, data as tensors, positions of batches."""

import torch
from torch import Tensor, nn

from leaklab.records import plugins
from training_speed.clock import use_one_cpu
from training_speed.made_up import CLASSES, noise, normalised
from training_speed.workloads import Workload


def one_thread() -> None:
    """Bind the process to one processor and torch to one thread."""
    use_one_cpu()
    torch.set_num_threads(1)


def network_of(workload: Workload, seed: int) -> nn.Module:
    """Return the workload's network in training mode, with the initial weights of ``seed``."""
    network: nn.Module = plugins.load("models", workload.model).initialised(workload.image_shape, CLASSES, seed)
    return network.train()


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
