"""A generator with what its card says of it: published, or made from images and judged by a classifier of real ones."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leaklab.data.dataset import Dataset, unit_range
from leaklab.data.deal import deal
from leaklab.models.base import Architecture
from leaklab.models.generators.base import Generator
from leaklab.models.generators.recognition import accuracy, recognised_share, train_classifier
from leaklab.models.generators.training import GanTraining, Streams, train_generator
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.kept import KeptTensors
from leaklab.records.partition_spec import PartitionChoice, PartitionSpec
from leaklab.records.streams import stream
from leaklab.records.weights import describe_weights

Labelled = tuple[Tensor, Tensor]
"""Images [N, C, H, W] in [0, 1] and their labels [N]."""

KINDS = {"train": "training", "test": "test"}
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
    """Return a generator made from one part of a dataset, and the share of its images that show their class.

    Args:
        spec: how it is made and judged.
        architecture: its plug-in; one with ``fitted`` is fitted at once, the others are trained step by step.
        dataset: the other part only tells how good the judging classifier is.
        device: where it is trained.
        kept: see ``train_generator``.

    Raises:
        UserError: the training diverges, steps are asked of one that takes none, or the classifier cannot judge.
    """
    other = "test" if spec.split == "train" else "train"
    public, unseen = (
        (unit_range(images).to(device), labels.to(device))
        for images, labels in (public_part(spec, dataset), dataset.part(other))
    )
    streams = partial(stream, spec.seed, "generator")
    if hasattr(architecture, "fitted"):
        generator = _fitted(spec, architecture, public, dataset.num_classes)
    else:
        generator = _stepped(spec, architecture, public, dataset.num_classes, streams, kept)
    judge: Architecture = plugins.load("models", spec.classifier.name, spec.classifier.settings)
    network = judge.initialised(dataset.shape, dataset.num_classes, spec.seed).to(device)
    classifier = train_classifier(network, *public, spec.classifier_steps, streams)
    shares = recognised_share(generator, classifier, spec.judged, streams)
    return generator, {
        "trained_on": f"{len(public[0])} {KINDS[spec.split]} images of {spec.dataset}",
        "recognition": {
            "share": float(shares.mean()),
            "share_by_class": shares.tolist(),
            "generated_per_class": spec.judged,
            "classifier": spec.classifier.name,
            f"classifier_accuracy_on_{other}_images": accuracy(classifier, *unseen),
        },
        "substitute": dataset.substitute,
    }


def public_part(spec: GeneratorSpec, dataset: Dataset) -> Labelled:
    """Return the uint8 images and labels of the part, without those that attacked clients of a deal hold.

    Raises:
        UserError: the part is not the one that is dealt, or the deal cannot be made.
    """
    images, labels = dataset.part(spec.split)
    clients, attacked = (int(spec.model.settings.get(key) or 0) for key in ("dealt_to", "attacked"))
    if not attacked:
        return images, labels
    if spec.split != "train":
        raise UserError("a deal is one of the training part: leave attacked out, or set generator.split: train")
    choice = PartitionChoice(name="iid", settings={"clients": clients})
    held = deal(PartitionSpec(dataset=spec.dataset, partition=choice), labels.numpy())["clients"]
    public = torch.ones(len(labels), dtype=torch.bool)
    public[[place for own in held[:attacked] for place in own]] = False
    return images[public], labels[public]


def _fitted(spec: GeneratorSpec, architecture: Any, images: Labelled, num_classes: int) -> Generator:
    """Return the generator of labelled images; ``steps: 1`` alone, so that one generator has one spec."""
    if spec.steps != 1:
        raise UserError(f"generator '{spec.model.name}' is fitted at once: set steps to 1")
    generator: Generator = architecture.fitted(*images, num_classes)
    return generator


def _stepped(
    spec: GeneratorSpec, architecture: Any, images: Labelled, num_classes: int, streams: Streams, kept: KeptTensors
) -> Generator:
    """Return the generator after its training on labelled images."""
    settings = GanTraining(spec.steps, spec.batch_size, spec.rate, spec.rate, average=spec.average)
    return train_generator(*images, num_classes, architecture, settings, streams, partial(_tell, spec.steps), kept)


def _tell(steps: int, step: int, judged: float, deceived: float) -> None:
    """Log about ten lines with both losses."""
    if (step + 1) % max(1, steps // LINES_PER_LOG) == 0:
        log.info("step %d of %d: discriminator's loss %.3f, generator's %.3f", step + 1, steps, judged, deceived)
