"""Learn the law of a defense from public images, and keep the one that reads further public images best."""

import torch
from torch import Tensor

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.learnt import laws
from leaklab.captures.rehearsal import best_law, rehearse
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


def run(job: Job) -> None:
    """Write outputs ``law`` and ``laws`` from inputs ``observation``, ``facts``, ``dataset`` and ``generator``."""
    repeat_on_gpu(job.device)
    spec = RehearsalSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    rehearsal = rehearse(spec.capture, observation, knowledge, Dataset.load(job.input("dataset")))
    generator = load_generator(job.input("generator"))
    name, law, tried = best_law(spec, rehearsal, knowledge, generator, job.device, error_of)
    description, tensors = laws.written(name, law)
    counts = torch.tensor([spec.images, spec.capture.draws])  # a file without a tensor is no safetensors
    write_tensors(job.outputs["law"], {"rehearsals": counts, **tensors})
    write_json(job.outputs["laws"], description)
    job.note(law=name, tried=tried, rehearsals=spec.images, draws=spec.capture.draws)


def error_of(found: Reconstruction, truth: Truth) -> float:
    """Return the mean square error of what was found, and the share of wrong labels besides."""
    images = found.images.double().nan_to_num(nan=0.5)
    order = match(images, truth.images)
    labels: Tensor = reorder(found.labels, order)
    errors = mean_squared_error(reorder(images, order).flatten(0, 1), truth.images.double().flatten(0, 1))
    return float(errors.mean()) + float((labels != truth.labels).double().mean())


if __name__ == "__main__":
    main("learn_law", run)
