"""A generator with what its card says of it: published, or made from images and judged by a classifier of real ones."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.data.dataset import Dataset, first_of_class, unit_range
from leaklab.data.deal import deal
from leaklab.data.download import describe_weights
from leaklab.models.base import Architecture
from leaklab.models.generators.base import Generator
from leaklab.models.generators.denoising import DenoiserTraining
from leaklab.models.generators.training import GanTraining, Streams, train_generator
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.training import PartitionChoice, PartitionSpec

# How well a generator keeps to the classes: a classifier trained on real data recognises a share of its images.

RATE = 1e-3
BATCH_SIZE = 64
IMAGES_PER_PASS = 500


def train_classifier(network: nn.Module, images: Tensor, labels: Tensor, steps: int, streams: Streams) -> nn.Module:
    """Train ``network`` in place with Adam on real images and return it in evaluation state.

    Args:
        network: a classifier with its initial weights; without dropout, which would draw from the global generator.
        images: [N, C, H, W] in [0, 1].
        labels: [N] int64.
        steps: batches of 64.
        streams: named streams; ``streams("classifier", step)`` draws a batch.

    Raises:
        UserError: the network has dropout, or its loss is not finite.
    """
    if any(isinstance(layer, nn.Dropout) and layer.p > 0 for layer in network.modules()):
        raise UserError("the classifier that judges a generator must have no dropout: choose another model")
    optimizer = torch.optim.Adam(network.requires_grad_().train().parameters(), lr=RATE)
    for step in range(steps):
        rows = streams("classifier", step).integers(0, len(images), BATCH_SIZE).to(images.device)
        loss = F.cross_entropy(network(images[rows]), labels[rows])
        if not bool(loss.isfinite()):
            raise UserError(f"the classifier that judges a generator diverged in step {step}: choose another model")
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return network.requires_grad_(requires_grad=False).eval()


def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of real images that the classifier recognises: the ceiling of ``recognised_share``."""
    with torch.no_grad():
        right = [
            network(some).argmax(1) == truth
            for some, truth in zip(
                torch.split(images, IMAGES_PER_PASS), torch.split(labels, IMAGES_PER_PASS), strict=True
            )
        ]
    return float(torch.cat(right).double().mean())


def recognised_share(generator: Generator, classifier: nn.Module, per_class: int, streams: Streams) -> Tensor:
    """Return for each class the share of its generated images that the classifier puts into it: [K], in [0, 1].

    Args:
        generator: frozen.
        classifier: in evaluation state, on the generator's device.
        per_class: images drawn for each class.
        streams: ``streams("recognition", k)`` draws the latents of class k.

    Raises:
        UserError: the generator is in training state, or no image is asked for.
    """
    generator.require_frozen()
    if per_class < 1:
        raise UserError("recognition needs at least one image per class: raise per_class")
    like = next(generator.parameters())
    shares = []
    for k in range(generator.num_classes):
        latents = streams("recognition", k).normal(per_class, generator.latent_size).to(like)
        labels = torch.full((per_class,), k, device=like.device)
        with torch.no_grad():
            images = generator.generate(latents, F.one_hot(labels, generator.num_classes).to(like))
        shares.append(accuracy(classifier, images, labels))
    return torch.tensor(shares, dtype=torch.float64)


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
    """Return the uint8 images and labels of the part: the first of each class, or all that no attacked client holds.

    Raises:
        UserError: the part is not the one that is dealt, or the deal cannot be made.
    """
    images, labels = dataset.part(spec.split)
    if per_class := int(spec.model.settings.get("per_class") or 0):
        few = first_of_class(labels, per_class)
        return images[few], labels[few]
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
    if hasattr(architecture, "trained"):
        schedule = DenoiserTraining(spec.steps, spec.batch_size, spec.rate, spec.average)
        own: Generator = architecture.trained(*images, num_classes, schedule, streams, partial(_said, spec.steps), kept)
        return own
    settings = GanTraining(spec.steps, spec.batch_size, spec.rate, spec.rate, average=spec.average)
    return train_generator(*images, num_classes, architecture, settings, streams, partial(_tell, spec.steps), kept)


def _said(steps: int, step: int, loss: float) -> None:
    """Log about ten lines with the loss of a denoiser."""
    if (step + 1) % max(1, steps // LINES_PER_LOG) == 0:
        log.info("step %d of %d: squared error %.3f times the Wiener filter's", step + 1, steps, loss)


def _tell(steps: int, step: int, judged: float, deceived: float) -> None:
    """Log about ten lines with both losses."""
    if (step + 1) % max(1, steps // LINES_PER_LOG) == 0:
        log.info("step %d of %d: discriminator's loss %.3f, generator's %.3f", step + 1, steps, judged, deceived)
