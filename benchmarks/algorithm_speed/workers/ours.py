"""Rounds of an algorithm by the engine, on the clock."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from speed.clock import Clock
from speed.costs import CLASSES, network_of, one_thread
from training_speed.workloads import Workload

from algorithm_speed.contestants import MADE
from leaklab.federated.engine import train
from leaklab.federated.forms.dense import keep_freed_memory
from leaklab.specs.training import OWN_TEST, TrainSpec
from leaklab.theory.times import dealt_in_order, noise_dataset

WARM_UP, ENDING = 1, 1


def main() -> None:
    """Measure the workload in the first argument under what the second one names."""
    one_thread()
    keep_freed_memory()
    workload, made = Workload.from_json(sys.argv[1]), MADE[sys.argv[2]]
    spec = spec_of(workload, made)
    clock = Clock(sum(value.numel() for value in network_of(workload, 0).parameters()))

    def on_the_clock(rounds: Iterable[int], total: int, label: str) -> Iterator[int]:
        for index in rounds:
            if index == WARM_UP:
                clock.warmed_up()
            if index == WARM_UP + workload.rounds:
                clock.report(workload.steps)
            yield index

    sizes = [workload.samples] * workload.clients
    dataset = noise_dataset(0, workload.image_shape, CLASSES, sum(sizes), 1)
    tests = [dealt_in_order([1])[0]] * workload.clients
    done = train(spec, dataset, dealt_in_order(sizes), tests=tests, track=on_the_clock)
    # what was counted has to be what the clock was told
    assert done.client_steps == workload.steps // workload.rounds * spec.rounds


def spec_of(workload: Workload, made: Mapping[str, Any]) -> TrainSpec:
    """Return the training: one round to warm up, those that count, and one that is tested and ends the last."""
    [seed], [rates] = workload.seeds, workload.settings
    return TrainSpec.model_validate({
        "dataset": "noise",
        "partition": {"name": "iid", "clients": workload.clients, "tests": 1},
        "model": workload.model,
        "algorithm": "fedavg",
        "rates": [list(rates)],
        "rounds": WARM_UP + workload.rounds + ENDING,
        "local_steps": workload.local_steps,
        "batch_size": workload.batch_size,
        "optimizer": {"name": "sgd", "momentum": workload.momentum},
        "weight_decay": workload.weight_decay,
        "seeds": [seed],
        "evaluate": [OWN_TEST],
        **made,
    })  # fmt: skip


if __name__ == "__main__":
    main()
