"""DP-SGD by opacus: its hooks take the samples' gradients, its optimizer clips them and adds noise."""

import sys

import torch.nn.functional as F
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from speed.clock import Clock
from speed.costs import network_of, one_thread
from training_speed.workloads import Workload

from algorithm_speed.contestants import NOISE
from algorithm_speed.workers.loop import batches_of, sgd


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    plain = network_of(workload, workload.seeds[0])
    clock = Clock(sum(value.numel() for value in plain.parameters()))
    network = GradSampleModule(plain)
    optimizer = DPOptimizer(
        sgd(workload, network),
        noise_multiplier=NOISE["sigma"],
        max_grad_norm=NOISE["bound"],
        expected_batch_size=workload.batch_size,
    )

    def steps(rounds: int) -> int:
        done = 0
        for _ in range(rounds):
            for images, labels in batches:
                optimizer.zero_grad()
                F.cross_entropy(network(images), labels).backward()
                optimizer.step()
                done += 1
        return done

    batches = batches_of(workload)
    steps(1)
    clock.warmed_up()
    clock.report(steps(workload.rounds))


if __name__ == "__main__":
    main()
