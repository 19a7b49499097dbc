"""What one step has to compute, whoever does it: the network, its operations, on one thread."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from leaklab.records import plugins
from speed.clock import use_one_cpu

CLASSES = 10


class Task(Protocol):
    """What a workload says of its network: plug-in of ``models/``, (channels, height, width), images of a step."""

    @property
    def model(self) -> str: ...  # noqa: D102

    @property
    def image_shape(self) -> tuple[int, int, int]: ...  # noqa: D102

    @property
    def batch_size(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of one client.

    Attributes:
        flop: floating point operations of matrix products and convolutions, forward and backward.
        parameters: weights of the network.
    """

    flop: int
    parameters: int


def one_thread() -> None:
    """Bind the process to one processor and torch to one thread."""
    use_one_cpu()
    torch.set_num_threads(1)


def network_of(task: Task, seed: int) -> nn.Module:
    """Return the task's network in training mode, with the initial weights of ``seed``."""
    network: nn.Module = plugins.load("models", task.model).initialised(task.image_shape, CLASSES, seed)
    return network.train()


def step_cost(task: Task) -> StepCost:
    """Count the operations of one batch without doing them.

    Raises:
        UserError: the project has no such model.
    """
    network = network_of(task, 0).to("meta")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        labels = torch.zeros(task.batch_size, dtype=torch.long)
        F.cross_entropy(network(torch.zeros(task.batch_size, *task.image_shape)), labels).backward()
    return StepCost(counter.get_total_flops(), sum(parameter.numel() for parameter in network.parameters()))
