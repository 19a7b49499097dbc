"""What one optimiser step has to compute, whoever does it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from training_speed.workers.torch_parts import network_of
from training_speed.workloads import Workload


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of one client.

    Attributes:
        flop: floating point operations of matrix products and convolutions, forward and backward.
        parameters: weights of the network.
    """

    flop: int
    parameters: int


def step_cost(workload: Workload) -> StepCost:
    """Count the operations of one batch without doing them.

    Raises:
        UserError: the project has no such model.
    """
    network = network_of(workload, 0).to("meta")
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        labels = torch.zeros(workload.batch_size, dtype=torch.long)
        F.cross_entropy(network(torch.zeros(workload.batch_size, *workload.image_shape)), labels).backward()
    return StepCost(counter.get_total_flops(), sum(parameter.numel() for parameter in network.parameters()))
