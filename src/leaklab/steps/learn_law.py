"""Rehearse on public images: learn the law that reads further ones best, try whether a learnt prior reads more."""

from typing import Any

import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.learnt import laws
from leaklab.captures.rehearsal import best_law, gains_of_splits, helps, rehearse, unseen
from leaklab.captures.truth import Truth
from leaklab.data.dataset import Dataset
from leaklab.metrics.guesses import match, reorder
from leaklab.metrics.pixel import mean_squared_error
from leaklab.models.generators.base import load_generator
from leaklab.observations.files import load_observation
from leaklab.records.files import write_json, write_tensors
from leaklab.records.streams import repeat_on_gpu
from leaklab.specs.law import RehearsalSpec
from leaklab.steps.base import Job, main

SPLITS = "splits"
"""Of ``laws``: whether the attack takes its splits."""


def run(job: Job) -> None:
    """Write outputs ``law`` and ``laws`` from inputs ``observation``, ``facts``, ``dataset`` and ``generator``."""
    repeat_on_gpu(job.device)
    spec = RehearsalSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    dataset = unseen(Dataset.load(job.input("dataset")), spec.capture.images.split, spec.taught)
    rehearsal = rehearse(spec.capture, observation, knowledge, dataset)
    generator = load_generator(job.input("generator"))
    description, tensors = dict[str, Any](), dict[str, Tensor]()
    if spec.images:
        name, law, tried = best_law(spec, rehearsal, knowledge, generator, job.device, error_of)
        description, tensors = laws.written(name, law)
        job.note(law=name, tried=tried)
    if spec.gate:
        learnt = (description, {name: value.to(job.device) for name, value in tensors.items()}) if spec.images else None
        gains = gains_of_splits(spec, rehearsal, knowledge, job.device, generator, learnt, error_of)
        description = {**description, SPLITS: helps(gains)}
        job.note(splits=description[SPLITS], gains=gains)
    counts = torch.tensor([spec.images, spec.capture.draws])  # a file without a tensor is no safetensors
    write_tensors(job.outputs["law"], {"rehearsals": counts, **tensors})
    write_json(job.outputs["laws"], description)
    job.note(rehearsals=spec.images, draws=spec.capture.draws)


def error_of(found: Reconstruction, truth: Truth) -> float:
    """Return the mean square error of what was found, and the share of wrong labels besides."""
    images = found.images.double().nan_to_num(nan=0.5)
    order = match(images, truth.images)
    labels: Tensor = reorder(found.labels, order)
    errors = mean_squared_error(reorder(images, order).flatten(0, 1), truth.images.double().flatten(0, 1))
    return float(errors.mean()) + float((labels != truth.labels).double().mean())


if __name__ == "__main__":
    main("learn_law", run)
