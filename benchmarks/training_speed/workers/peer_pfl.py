"""Peer pfl: federated averaging in its simulated backend."""

import os

os.environ["PFL_PYTORCH_DEVICE"] = "cpu"

import sys
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from speed.costs import network_of, one_thread
from torch import Tensor, nn

from training_speed.workers.measuring import measure
from training_speed.workers.torch_parts import data_of, parameter_count, positions
from training_speed.workloads import Cell, Workload

NEVER = 10**9  # rounds between two evaluations


class Pfl:
    """The workload in pfl's terms; it has one rate for all clients, which does not change the cost.

    Attributes:
        steps: steps of the clients' optimisers, counted by torch's own hook; the server's are left out.
    """

    def __init__(self, workload: Workload) -> None:
        self.steps = 0
        self._workload = workload
        self._images, self._labels = data_of(workload)

    def train_cell(self, cell: Cell, rounds: int) -> None:
        """Train one cell."""
        # an own generator: only the cost is compared, and our named streams would be charged to the peer
        workload = self._workload
        generator = torch.Generator().manual_seed(cell.seed)  # one of its own, see above

        def user_data(user: int) -> Dataset:
            # pfl's batches follow the order of the data, so one epoch over shuffled data is one round
            chosen = positions(workload, user, generator)
            return Dataset((self._images[chosen], self._labels[chosen]), user_id=str(user))

        sampler = get_user_sampler("minimize_reuse", list(range(workload.clients)))
        network = _with_loss(network_of(workload, cell.seed))
        FederatedAveraging().run(
            NNAlgorithmParams(
                central_num_iterations=rounds,
                evaluation_frequency=NEVER,
                train_cohort_size=workload.participants,
                val_cohort_size=0,
            ),
            SimulatedBackend(FederatedDataset(user_data, sampler), val_data=None, postprocessors=[WeightByUser()]),
            PyTorchModel(network, self._optimizer, torch.optim.SGD(network.parameters(), lr=1.0)),
            NNTrainHyperParams(
                local_num_epochs=1, local_learning_rate=cell.rate(0), local_batch_size=workload.batch_size
            ),
            NNEvalHyperParams(local_batch_size=None),
        )

    def _optimizer(self, parameters: Any, lr: float) -> torch.optim.Optimizer:
        momentum, decay = self._workload.momentum, self._workload.weight_decay
        optimizer = torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=decay)
        optimizer.register_step_post_hook(self._count)
        return optimizer

    def _count(self, *event: object) -> None:
        self.steps += 1


def _with_loss(network: nn.Module) -> nn.Module:
    def loss(self: nn.Module, images: Tensor, labels: Tensor, eval: bool = False) -> Tensor:
        return F.cross_entropy(self.train(not eval)(images), labels)

    network.loss = MethodType(loss, network)
    network.metrics = MethodType(lambda self, images, labels, eval=True: {}, network)  # asked for by pfl, never called
    return network


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    peer = Pfl(workload)
    measure(workload, parameter_count(workload), peer.train_cell, lambda: peer.steps)


if __name__ == "__main__":
    main()
