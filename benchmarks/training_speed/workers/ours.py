"""This project's engine: the whole sweep in one call."""

import sys
from collections.abc import Iterable, Iterator

import torch
from speed.clock import Clock
from speed.costs import one_thread

from leaklab.data.dataset import Dataset
from leaklab.federated.engine import train
from leaklab.specs.training import TrainSpec
from training_speed.made_up import CLASSES, MEAN, STD, noise
from training_speed.workers.torch_parts import parameter_count
from training_speed.workloads import Workload

WARM_UP = 1  # rounds


def main() -> None:
    """Measure the workload in the first argument."""
    one_thread()
    workload = Workload.from_json(sys.argv[1])
    clock, rounds = Clock(parameter_count(workload)), WARM_UP + workload.rounds

    def watched(indices: Iterable[int], total: int, label: str) -> Iterator[int]:
        for index in indices:
            if index == WARM_UP:
                clock.warmed_up()
            yield index

    clients = list(torch.arange(workload.clients * workload.samples).split(workload.samples))
    sweep = train(_spec(workload, rounds), _dataset(workload), clients, track=watched)
    # without the steps that the warm-up must have had: any step too many or too few stays visible
    clock.report(sweep.client_steps - WARM_UP * workload.steps // workload.rounds)


def _spec(workload: Workload, rounds: int) -> TrainSpec:
    return TrainSpec.model_validate(
        {
            "dataset": "noise",
            "partition": "iid",
            "model": workload.model,
            "rates": workload.settings,
            "rounds": rounds,
            "local_steps": workload.local_steps,
            "batch_size": workload.batch_size,
            "optimizer": {"name": "sgd", "momentum": workload.momentum},
            "weight_decay": workload.weight_decay,
            "clients_per_round": workload.participants,
            "seeds": workload.seeds,
        }
    )


def _dataset(workload: Workload) -> Dataset:
    images, labels = (torch.from_numpy(values) for values in noise(workload))
    mean, std = (torch.full((workload.image_shape[0],), value) for value in (MEAN, STD))
    # ten test images: evaluation is not what is measured
    return Dataset("noise", CLASSES, images, labels, images[:10], labels[:10], mean, std)


if __name__ == "__main__":
    main()
