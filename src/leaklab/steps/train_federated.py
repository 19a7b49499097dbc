"""Train a sweep: one model, one dataset, one algorithm, one defense; replicates = seeds x rates."""

import torch

from leaklab.data.dataset import Dataset
from leaklab.federated.checkpoint import CLIENTS, discard
from leaklab.federated.engine import train
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.files import read_json, read_tensors, write_table, write_tensors
from leaklab.records.train_spec import TrainSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``sweep`` and ``weights`` from inputs ``dataset``, ``card`` and ``partition``.

    A backbone that was trained here is the input ``backbone``.

    Checkpoints lie beside the sweep while the training goes on, the last and the one before; an interrupted step goes
    on from there.
    """
    spec = TrainSpec.model_validate(job.spec)
    dataset = Dataset.load(job.input("dataset"))
    deal = read_json(job.input("partition"))
    clients, tests = ([torch.tensor(held) for held in deal.get(key, [])] for key in ("clients", "tests"))
    pretrained = {name: value for path in job.inputs.get("backbone", []) for name, value in read_tensors(path).items()}
    checkpoint = job.outputs["sweep"].with_name("checkpoint.safetensors")
    seconds = checkpoint_seconds()
    sweep = train(
        spec, dataset, clients, tests=tests, pretrained=pretrained,
        device=job.device, checkpoint=checkpoint, checkpoint_seconds=seconds, track=job.track,
    )  # fmt: skip
    write_table(job.outputs["sweep"], sweep.table)
    kept = {CLIENTS + name: value for name, value in sweep.clients.items()}
    write_tensors(job.outputs["weights"], {**sweep.weights, **kept})
    discard(checkpoint)
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
