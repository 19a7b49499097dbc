"""A generator with what its card says of it: published, or trained and judged by a classifier of real images."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from leaklab.data.dataset import Dataset, unit_range
from leaklab.models.base import Architecture
from leaklab.models.generators.base import Generator
from leaklab.models.generators.recognition import accuracy, recognised_share, train_classifier
from leaklab.models.generators.training import GanTraining, train_generator
from leaklab.records import plugins
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream
from leaklab.records.weights import describe_weights

LINES_PER_LOG = 10
log = logging.getLogger("leaklab")


def published(architecture: Any, wanted: Mapping[str, Any]) -> tuple[Generator, dict[str, Any]]:
    """Return a generator with its published weights, and where they come from.

    Args:
        architecture: a plug-in with ``pretrained`` and ``weights``.
        wanted: the card of the dataset, which says what images and classes are wanted.

    Raises:
        UserError: the weights cannot be had, or the generator makes other images.
    """
    generator: Generator = architecture.pretrained()
    generator.require(tuple(wanted["shape"]), wanted["num_classes"])
    return generator, {"weights": describe_weights(architecture.weights).title}


def trained(
    spec: GeneratorSpec, architecture: Any, dataset: Dataset, device: str, kept: KeptTensors
) -> tuple[Generator, dict[str, Any]]:
    """Return a generator trained on the training part, and the share of its images that show their class.

    Args:
        spec: how it is trained and judged.
        architecture: its plug-in.
        dataset: the test part only tells how good the judging classifier is.
        device: where it is trained.
        kept: see ``train_generator``.

    Raises:
        UserError: the training diverges, or the classifier cannot judge.
    """
    train, test = (
        (unit_range(images).to(device), labels.to(device))
        for images, labels in (dataset.part("train"), dataset.part("test"))
    )
    settings = GanTraining(spec.steps, spec.batch_size, spec.rate, spec.rate, average=spec.average)
    streams = partial(stream, spec.seed, "generator")
    generator = train_generator(
        *train, dataset.num_classes, architecture, settings, streams, partial(_tell, spec.steps), kept
    )
    judge: Architecture = plugins.load("models", spec.classifier.name, spec.classifier.settings)
    network = judge.initialised(dataset.shape, dataset.num_classes, spec.seed).to(device)
    classifier = train_classifier(network, *train, spec.classifier_steps, streams)
    shares = recognised_share(generator, classifier, spec.judged, streams)
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
