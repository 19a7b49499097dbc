"""Peer Flower: all cells as strategies of one simulation, so that it starts once."""

import os

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

import sys
from collections.abc import Sequence

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from speed.costs import network_of

from training_speed.workers.flower_client import app as client_app
from training_speed.workers.measuring import measure
from training_speed.workers.torch_parts import parameter_count
from training_speed.workloads import Cell, Workload

CPUS = min(2, len(os.sched_getaffinity(0)))


class Flower:
    """The workload in Flower's terms.

    Attributes:
        steps: optimiser steps, as every client counted and reported them.
    """

    def __init__(self, workload: Workload, grid: Grid) -> None:
        self.steps = 0
        self._workload, self._grid = workload, grid

    def train_cell(self, cell: Cell, rounds: int) -> None:
        """Train one cell."""
        workload = self._workload
        strategy = FedAvg(
            fraction_train=workload.participants / workload.clients,
            fraction_evaluate=0.0,
            min_train_nodes=workload.participants,
            min_available_nodes=workload.clients,
            train_metrics_aggr_fn=self._count,
        )
        config = ConfigRecord({"workload": workload.to_json(), "seed": cell.seed, "rates": list(cell.rates)})
        network = network_of(workload, cell.seed)
        weights = dict(network.named_parameters()) | dict(network.named_buffers())
        strategy.start(self._grid, ArrayRecord(weights), num_rounds=rounds, train_config=config)

    def _count(self, replies: Sequence[RecordDict], weighted_by: str) -> MetricRecord:
        self.steps += sum(int(reply["metrics"]["steps"]) for reply in replies)
        return MetricRecord({"steps": self.steps})


def main() -> None:
    """Measure the workload in the first argument."""
    workload = Workload.from_json(sys.argv[1])
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        peer = Flower(workload, grid)
        measure(workload, parameter_count(workload), peer.train_cell, lambda: peer.steps, CPUS)

    run_simulation(
        server_app,
        client_app,
        workload.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": CPUS, "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    main()
