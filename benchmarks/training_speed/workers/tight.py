"""A plain loop as fast as eager torch allows without batching models: one network, indexing, foreach updates."""

import sys

import torch
import torch.nn.functional as F
from speed.costs import network_of, one_thread
from torch import Tensor

from training_speed.made_up import participants
from training_speed.workers.measuring import measure
from training_speed.workers.torch_parts import data_of, parameter_count, positions
from training_speed.workloads import Cell, Workload


class TightClient:
    """A client that trains in place.

    Attributes:
        steps: optimiser steps, counted where the weights change.
        tensors: parameters and running statistics of the network.
    """

    def __init__(self, workload: Workload, seed: int = 0) -> None:
        self.steps = 0
        self._workload = workload
        self._network = network_of(workload, seed)
        self._parameters = list(self._network.parameters())
        self.tensors = [*(parameter.data for parameter in self._parameters), *self._network.buffers()]
        self._images, self._labels = data_of(workload)

    def train(self, start: list[Tensor], client: int, rate: float, generator: torch.Generator) -> None:
        """Train ``tensors`` from ``start`` for one round."""
        torch._foreach_copy_(self.tensors, start)
        velocities = [torch.zeros_like(parameter) for parameter in self._parameters]
        for batch in positions(self._workload, client, generator).split(self._workload.batch_size):
            loss = F.cross_entropy(self._network(self._images[batch]), self._labels[batch])
            self._descend(torch.autograd.grad(loss, self._parameters), velocities, rate)

    @torch.no_grad()
    def _descend(self, gradients: tuple[Tensor, ...], velocities: list[Tensor], rate: float) -> None:
        momentum, decay = self._workload.momentum, self._workload.weight_decay
        if momentum:
            torch._foreach_mul_(velocities, momentum)
            torch._foreach_add_(velocities, gradients)
            torch._foreach_add_(velocities, self._parameters, alpha=decay)
            torch._foreach_add_(self._parameters, velocities, alpha=-rate)
        else:
            torch._foreach_mul_(self._parameters, 1 - rate * decay)
            torch._foreach_add_(self._parameters, gradients, alpha=-rate)
        self.steps += 1


class TightLoop:
    """Federated averaging with one such client, which plays them all."""

    def __init__(self, workload: Workload) -> None:
        self.client, self._workload = TightClient(workload), workload

    def train_cell(self, cell: Cell, rounds: int) -> None:
        """Train one cell."""
        network = network_of(self._workload, cell.seed)
        weights = [*(parameter.detach() for parameter in network.parameters()), *network.buffers()]
        # an own generator: only the cost is compared, and our named streams would be charged to the plain loop
        generator = torch.Generator().manual_seed(cell.seed)
        for index in range(rounds):
            chosen = participants(self._workload, cell.seed, index)
            total = [torch.zeros_like(value) for value in weights]
            for client in chosen:
                self.client.train(weights, client, cell.rate(client), generator)
                torch._foreach_add_(total, self.client.tensors, alpha=1 / len(chosen))
            weights = total


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    loop = TightLoop(workload)
    measure(workload, parameter_count(workload), loop.train_cell, lambda: loop.client.steps)


if __name__ == "__main__":
    main()
