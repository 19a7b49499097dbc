"""How fast this machine is beside the one whose times the plan knows: plain torch, none of our code."""

import time

import torch
from torch import nn
from torch.nn import functional as F

REFERENCE = 0.15
"""Processor seconds of the yardstick where the curves were measured."""
STEPS, WARM = 60, 5
TRIES = 3


def pace() -> float:
    """Return how many times as long as there the yardstick takes here, at its best."""
    return min(seconds() for _ in range(TRIES)) / REFERENCE


def seconds() -> float:
    """Return the processor seconds of some steps of a small convolutional network, in plain torch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # layers draw their first weights from it alone; it is put back
        network, images = _network(), torch.rand(32, 1, 28, 28)
    labels = torch.zeros(len(images), dtype=torch.long)
    optimizer, began = torch.optim.SGD(network.parameters(), 0.01), 0.0
    for step in range(WARM + STEPS):
        if step == WARM:
            began = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()
    return time.process_time() - began


def _network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 5, 2, 2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, 2, 2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(588, 10),
    )
