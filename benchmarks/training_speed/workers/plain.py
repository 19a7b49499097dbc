"""The usual code: a deep copy and a loader per client, torch's optimiser, the loss read in every step."""

import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice

import torch
from speed.costs import network_of, one_thread
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from training_speed.made_up import participants
from training_speed.workers.measuring import measure
from training_speed.workers.torch_parts import data_of, parameter_count
from training_speed.workloads import Cell, Workload


class PlainLoop:
    """Federated averaging, one client after the other.

    Attributes:
        steps: optimiser steps, counted by torch's own hook.
    """

    def __init__(self, workload: Workload) -> None:
        self.steps = 0
        self._workload, self._data = workload, TensorDataset(*data_of(workload))
        self._criterion = nn.CrossEntropyLoss()

    def train_cell(self, cell: Cell, rounds: int) -> None:
        """Train one cell."""
        network = network_of(self._workload, cell.seed)
        # an own generator: only the cost is compared, and our named streams would be charged to the plain loop
        generator = torch.Generator().manual_seed(cell.seed)
        for index in range(rounds):
            chosen = participants(self._workload, cell.seed, index)
            states = [self._local_state(network, client, cell.rate(client), generator) for client in chosen]
            network.load_state_dict({name: _mean([state[name] for state in states]) for name in states[0]}, strict=True)

    def _local_state(
        self, network: nn.Module, client: int, rate: float, generator: torch.Generator
    ) -> dict[str, Tensor]:
        workload = self._workload
        local = deepcopy(network)
        local.load_state_dict(network.state_dict(), strict=True)
        optimizer = torch.optim.SGD(
            local.parameters(), lr=rate, momentum=workload.momentum, weight_decay=workload.weight_decay
        )
        optimizer.register_step_post_hook(self._count)
        held = Subset(self._data, range(client * workload.samples, (client + 1) * workload.samples))
        loader = DataLoader(held, workload.batch_size, shuffle=True, drop_last=True, generator=generator)
        total = 0.0
        for images, labels in islice(_endless(loader), workload.local_steps):
            optimizer.zero_grad()
            loss = self._criterion(local(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return deepcopy(local.state_dict())

    def _count(self, *event: object) -> None:
        self.steps += 1


def _endless(loader: DataLoader[tuple[Tensor, ...]]) -> Iterator[list[Tensor]]:
    while True:
        yield from loader


def _mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(0)


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    loop = PlainLoop(workload)
    measure(workload, parameter_count(workload), loop.train_cell, lambda: loop.steps)


if __name__ == "__main__":
    main()
