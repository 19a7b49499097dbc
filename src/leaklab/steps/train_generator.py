"""Train an image generator on the training part of a dataset, or take a published one, and say how well it draws."""

import logging
from functools import partial
from typing import Any

from leaklab.data.dataset import Dataset, unit_range
from leaklab.models.base import Architecture
from leaklab.models.generators.base import Generator
from leaklab.models.generators.files import save_generator
from leaklab.models.generators.recognition import accuracy, recognised_share, train_classifier
from leaklab.models.generators.training import GanTraining, train_generator
from leaklab.records import plugins
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256, write_json
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream
from leaklab.records.weights import describe_weights
from leaklab.steps.base import Job, main

LINES_PER_LOG = 10
log = logging.getLogger("leaklab")


def run(job: Job) -> None:
    """Write outputs ``generator``, ``description`` and ``card`` from inputs ``dataset`` and ``dataset_card``.

    A killed training goes on from the file that it kept beside the outputs.
    """
    spec = GeneratorSpec.model_validate(job.spec)
    architecture = plugins.load("models/generators", spec.model.name, spec.model.settings)
    published = hasattr(architecture, "pretrained")
    if published != (spec.steps == 0):
        wanted = "is published: set steps to 0" if published else "has to be trained: set steps above 0"
        raise UserError(f"generator '{spec.model.name}' {wanted}")
    generator, facts = _published(job, architecture) if published else _trained(job, spec, architecture)
    save_generator(job.outputs["generator"], generator.to("cpu"), spec.model.name, spec.model.settings)
    card = {"model": spec.model.name, "dataset": spec.dataset, "image_shape": list(generator.image_shape), **facts}
    write_json(job.outputs["card"], card)
    job.note(**facts)


def _published(job: Job, architecture: Any) -> tuple[Generator, dict[str, Any]]:
    """Return a generator with its published weights; the dataset only says which images are wanted."""
    generator: Generator = architecture.pretrained()
    wanted = read_json(job.input("dataset_card"))
    generator.require(tuple(wanted["shape"]), wanted["num_classes"])
    return generator, {"weights": describe_weights(architecture.weights).title}


def _trained(job: Job, spec: GeneratorSpec, architecture: Any) -> tuple[Generator, dict[str, Any]]:
    dataset = Dataset.load(job.input("dataset"))
    train, test = (
        (unit_range(images).to(job.device), labels.to(job.device))
        for images, labels in (dataset.part("train"), dataset.part("test"))
    )
    settings = GanTraining(spec.steps, spec.batch_size, spec.rate, spec.rate, average=spec.average)
    kept = KeptTensors(
        job.outputs["generator"].with_name("checkpoint.safetensors"),
        "\n".join([spec.model_dump_json(), sha256(job.input("dataset")), job.recorder.code, job.device]),
        checkpoint_seconds(),
    )
    streams = partial(stream, spec.seed, "generator")
    generator = train_generator(
        *train, dataset.num_classes, architecture, settings, streams, partial(_tell, spec.steps), kept
    )
    judge: Architecture = plugins.load("models", spec.classifier.name, spec.classifier.settings)
    network = judge.initialised(dataset.shape, dataset.num_classes, spec.seed).to(job.device)
    classifier = train_classifier(network, *train, spec.classifier_steps, streams)
    shares = recognised_share(generator, classifier, spec.judged, streams)
    kept.remove()
    return generator, {
        "trained_on": f"{len(train[0])} training images of {spec.dataset}",
        "recognition": {
            "share": float(shares.mean()),
            "share_by_class": shares.tolist(),
            "generated_per_class": spec.judged,
            "classifier": spec.classifier.name,
            "classifier_accuracy_on_test_images": accuracy(classifier, *test),
        },
        "substitute": dataset.substitute,
    }


def _tell(steps: int, step: int, judged: float, deceived: float) -> None:
    """Log about ten lines with both losses."""
    if (step + 1) % max(1, steps // LINES_PER_LOG) == 0:
        log.info("step %d of %d: discriminator's loss %.3f, generator's %.3f", step + 1, steps, judged, deceived)


if __name__ == "__main__":
    main("train_generator", run)
