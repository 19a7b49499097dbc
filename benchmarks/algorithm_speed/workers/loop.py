"""DP-SGD in a loop: each sample's loss is differentiated by itself, its gradient clipped, noise added to the sum."""

import sys

import torch
import torch.nn.functional as F
from speed.clock import Clock
from speed.costs import network_of, one_thread
from torch import Tensor, nn
from training_speed.made_up import noise, normalised
from training_speed.workloads import Workload

from algorithm_speed.contestants import NOISE


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    network = network_of(workload, workload.seeds[0])
    optimizer = sgd(workload, network)
    clock = Clock(sum(value.numel() for value in network.parameters()))
    batches = batches_of(workload)
    step(network, optimizer, *batches[0])
    clock.warmed_up()
    steps = 0
    for _ in range(workload.rounds):
        for images, labels in batches:
            step(network, optimizer, images, labels)
            steps += 1
    clock.report(steps)


def sgd(workload: Workload, network: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer of the workload."""
    [(rate, *_)] = workload.settings
    return torch.optim.SGD(
        network.parameters(), lr=rate, momentum=workload.momentum, weight_decay=workload.weight_decay
    )


def batches_of(workload: Workload) -> list[tuple[Tensor, Tensor]]:
    """Return the batches of a round."""
    pixels, classes = noise(workload)
    images, labels = torch.from_numpy(normalised(pixels)), torch.from_numpy(classes)
    starts = [
        step * workload.batch_size % (workload.samples - workload.batch_size + 1)
        for step in range(workload.local_steps)
    ]
    return [
        (images[first : first + workload.batch_size], labels[first : first + workload.batch_size]) for first in starts
    ]


def step(network: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    """Do one step."""
    for parameter, value in zip(network.parameters(), noisy_mean(network, images, labels), strict=True):
        parameter.grad = value
    optimizer.step()


def noisy_mean(network: nn.Module, images: Tensor, labels: Tensor, sigma: float = NOISE["sigma"]) -> list[Tensor]:
    """Return the mean of the clipped gradients, with noise of ``sigma`` times the bound on their sum."""
    parameters, bound = list(network.parameters()), float(NOISE["bound"])
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for image, label in zip(images, labels, strict=True):
        gradients = torch.autograd.grad(F.cross_entropy(network(image[None]), label[None]), parameters)
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        factor = (bound / norm.clamp(min=1e-12)).clamp(max=1.0)
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += factor * gradient
    return [(sum_ + sigma * bound * torch.randn_like(sum_)) / len(images) for sum_ in total]


if __name__ == "__main__":
    main()
