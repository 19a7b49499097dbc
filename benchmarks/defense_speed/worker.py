"""Local steps of a few clients under one defense, on the clock."""

import sys
from functools import partial

import torch
from speed.clock import Clock
from speed.costs import one_thread
from training_speed.made_up import CLASSES, noise, normalised
from training_speed.workloads import Workload

from defense_speed.contestants import MADE
from leaklab.defenses.base import ClientContext
from leaklab.federated.batches import Batch
from leaklab.federated.forms.dense import keep_freed_memory
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_steps
from leaklab.models.base import Architecture
from leaklab.records import plugins


def main() -> None:
    """Measure the workload in the first argument under the defense that the second one names."""
    one_thread()
    keep_freed_memory()
    workload, defense = Workload.from_json(sys.argv[1]), MADE[sys.argv[2]]()
    model: Architecture = plugins.load("models", workload.model)
    network = model.initialised(workload.image_shape, CLASSES, workload.seeds[0])
    clock = Clock(sum(value.numel() for value in network.parameters()))
    form = trainable(model.build(workload.image_shape, CLASSES), workload.image_shape)
    build = partial(model.build, workload.image_shape, CLASSES)
    weights = {
        name: value.detach().expand(workload.participants, *value.shape) for name, value in network.state_dict().items()
    }
    batches = _batches(workload)

    def work(round_index: int, steps: list[Batch]) -> int:
        clients = range(workload.participants)
        contexts = [ClientContext(workload.settings[0][0], seed=0, client=c, round=round_index) for c in clients]
        return local_steps(form, weights, steps, contexts, defense, build=build).rates.numel()

    work(0, batches[:1])
    clock.warmed_up()
    clock.report(sum(work(1 + number, batches) for number in range(workload.rounds)))


def _batches(workload: Workload) -> list[Batch]:
    pixels, classes = noise(workload)
    images, labels = torch.from_numpy(normalised(pixels)), torch.from_numpy(classes)
    own, labels = images.view(workload.clients, -1, *workload.image_shape), labels.view(workload.clients, -1)
    found = []
    for step in range(workload.local_steps):
        first = step * workload.batch_size % (workload.samples - workload.batch_size + 1)
        chosen = slice(first, first + workload.batch_size)
        found.append(Batch(own[:, chosen], labels[:, chosen], {}))
    return found


if __name__ == "__main__":
    main()
