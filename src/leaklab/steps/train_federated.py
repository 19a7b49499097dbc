"""Train a sweep: one model, one dataset, one algorithm, one defense; replicates = seeds x rates."""

from pathlib import Path

import torch

from leaklab.data.dataset import Dataset
from leaklab.federated.checkpoint import Stopped, Sweep, discard
from leaklab.federated.engine import train
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.files import read_json, read_tensors, write_table, write_tensors
from leaklab.records.streams import repeat_on_gpu
from leaklab.specs.training import TrainSpec
from leaklab.steps.base import Job, main


def trained(job: Job) -> tuple[Sweep, Dataset]:
    """Train from inputs ``dataset``, ``card``, ``partition`` and, if it was trained here, ``backbone``.

    Two checkpoints lie beside the output ``sweep``; an interrupted step goes on from them, and one whose training was
    done with fewer rounds from what that left, the inputs ``shorter``, for which the record beside them vouches.
    """
    spec, dataset = TrainSpec.model_validate(job.spec), Dataset.load(job.input("dataset"))
    deal, parts = read_json(job.input("partition")), ("clients", "tests", "validation")
    clients, tests, aside = ([torch.tensor(held) for held in deal.get(key, [])] for key in parts)
    pretrained = {name: value for path in job.inputs.get("backbone", []) for name, value in read_tensors(path).items()}
    sweep = train(
        spec, dataset, clients, tests=tests, validation=aside, pretrained=pretrained, device=job.device,
        checkpoint=_checkpoint(job), checkpoint_seconds=checkpoint_seconds(),
        shorter=Stopped.of_files(job.inputs.get("shorter", [])), track=job.track,
    )  # fmt: skip
    return sweep, dataset


def _checkpoint(job: Job) -> Path:
    return job.outputs["sweep"].with_name("checkpoint.safetensors")


def run(job: Job) -> None:
    """Train (see ``trained``) and write outputs ``sweep`` and ``weights``."""
    repeat_on_gpu(job.device)
    sweep, dataset = trained(job)
    write_table(job.outputs["sweep"], sweep.table)
    write_tensors(job.outputs["weights"], sweep.left())
    discard(_checkpoint(job))
    job.note(
        client_steps=sweep.client_steps,
        microseconds_per_client_step=round(1e6 * sweep.training_seconds / max(1, sweep.client_steps), 1),
        diverged=sweep.diverged,
        clipped_clients=sweep.clipped_clients,
        random_numbers="batches, dropout masks and the defense's draws are common to all settings of a seed",
        substitute=dataset.substitute,
        **({"epsilon": float(sweep.table["epsilon"].max())} if "epsilon" in sweep.table else {}),
    )


if __name__ == "__main__":
    main("train_federated", run)
