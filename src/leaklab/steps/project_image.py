"""GAN inversion: the latents whose pictures come nearest to chosen private images; it sees the truth, no update."""

from functools import partial

import torch

from leaklab.attacks.gan_inversion import Perceptual, ProjectionSettings, project
from leaklab.data.dataset import Dataset, unit_range
from leaklab.metrics.mse import mean_squared_error
from leaklab.metrics.perceptual import PerceptualDistance
from leaklab.models.generators.files import load_generator
from leaklab.observations.private_images import choose_images
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import write_tensors
from leaklab.records.landscape_spec import ProjectionSpec
from leaklab.records.streams import stream
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``projection`` (latents [N, d], images, losses) from inputs ``dataset`` and ``generator``."""
    spec = ProjectionSpec.model_validate(job.spec)
    images, labels = Dataset.load(job.input("dataset")).part(spec.images.split)
    chosen = choose_images(spec.images, images)
    originals = unit_range(images[chosen], torch.float32).to(job.device)
    found = project(
        load_generator(job.input("generator")).to(job.device),
        originals,
        labels[chosen].to(job.device),
        partial(stream, spec.seed, "projection"),
        ProjectionSettings(
            spec.generations,
            spec.population,
            inner_steps=spec.inner_steps,
            final_steps=spec.final_steps,
            rate=spec.rate,
            perceptual_weight=spec.perceptual_weight,
        ),
        _perceptual(spec.perceptual),
    )
    tensors = {"latents": found.latents, "images": found.images, "losses": found.losses}
    write_tensors(job.outputs["projection"], {name: value.cpu().contiguous() for name, value in tensors.items()})
    errors = mean_squared_error(found.images.cpu(), originals.cpu())
    job.note(images=chosen.tolist(), mean_squared_errors=[round(float(error), 6) for error in errors])


def _perceptual(name: str) -> Perceptual | None:
    if not name:
        return None
    metric = plugins.load("metrics", name)
    if not isinstance(metric, PerceptualDistance):
        raise UserError(f"metric '{name}' has no derivative here: choose an lpips one for 'perceptual', or none")
    return metric.distances


if __name__ == "__main__":
    main("project_image", run)
