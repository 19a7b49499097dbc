"""GAN inversion: the latents whose pictures come nearest to chosen private images; it sees the truth, no update.

Of planted images the latents are those that they were made of.
"""

from functools import partial

import torch
from torch import Tensor

from leaklab.attacks.latents.gan_inversion import Projected, ProjectionSettings, project
from leaklab.captures.private_images import choose_images, planted_images
from leaklab.data.dataset import Dataset, unit_range
from leaklab.metrics.landscape import differentiable
from leaklab.metrics.pixel import mean_squared_error
from leaklab.models.generators.base import load_generator
from leaklab.records.files import write_tensors
from leaklab.records.streams import repeat_on_gpu, stream
from leaklab.specs.attack import ProjectionSpec
from leaklab.steps.base import Job, main

SETTINGS = {"inner_steps", "final_steps", "rate", "perceptual_weight"}


def run(job: Job) -> None:
    """Write output ``projection`` (latents [N, d], images, losses) from inputs ``dataset`` and ``generator``."""
    repeat_on_gpu(job.device)
    spec = ProjectionSpec.model_validate(job.spec)
    generator = load_generator(job.input("generator"))
    if spec.images.planted:
        # in the precision of captures, for loss and distance to be zero there
        planted = planted_images(spec.images, generator, torch.float64)
        _write(job, Projected(planted.latents, planted.images, torch.zeros(len(planted.labels))), planted.images)
        return
    images, labels = Dataset.load(job.input("dataset")).part(spec.images.split)
    chosen = choose_images(spec.images, images, labels)
    originals = unit_range(images[chosen], torch.float32).to(job.device)
    draws = partial(stream, spec.seed, "projection")
    settings = ProjectionSettings(spec.generations, spec.population, **spec.model_dump(include=SETTINGS))
    known = labels[chosen].to(job.device)
    found = project(generator.to(job.device), originals, known, draws, settings, differentiable(spec.perceptual))
    _write(job, found, originals)
    job.note(images=chosen.tolist())


def _write(job: Job, found: Projected, originals: Tensor) -> None:
    tensors = {"latents": found.latents, "images": found.images, "losses": found.losses}
    write_tensors(job.outputs["projection"], {name: value.cpu().contiguous() for name, value in tensors.items()})
    errors = mean_squared_error(found.images.cpu(), originals.cpu())
    job.note(mean_squared_errors=[round(float(error), 6) for error in errors])


if __name__ == "__main__":
    main("project_image", run)
