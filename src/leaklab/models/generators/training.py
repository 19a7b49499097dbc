"""Training of a class-conditional GAN: hinge loss, Adam, and an average of the generator's weights.

Source: see ``duel``; the statistics of batch normalisation are measured anew for the averaged weights, as in "Large
Scale GAN Training" (BigGAN), appendix C.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.models.batch_norm import batch_norms
from leaklab.models.generators.conditional_gan import ConditionalGan, ConditionalGenerator
from leaklab.models.generators.duel import Duel
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import Stream

Streams = Callable[..., Stream]
Progress = Callable[[int, float, float], None]
"""Called after each step with its number, the discriminator's and the generator's loss."""

STATISTICS_BATCHES = 64


@dataclass(frozen=True)
class GanTraining:
    """How long and how fast both networks learn; one step updates each of them once.

    Attributes:
        steps: number of steps.
        batch_size: real images, and as many generated ones, per step.
        generator_rate: Adam's rate for the generator.
        discriminator_rate: Adam's rate for the discriminator.
        momentum: Adam's first decay, for both.
        average: weight of the past in the running average of the generator's weights.
    """

    steps: int
    batch_size: int = 64
    generator_rate: float = 5e-4
    discriminator_rate: float = 5e-4
    momentum: float = 0.0
    average: float = 0.999

    def __post_init__(self) -> None:
        """Refuse settings that cannot train anything."""
        if self.steps < 1 or self.batch_size < 2:
            raise UserError("a generator is trained for at least 1 step on batches of at least 2: raise the settings")
        if not (min(self.generator_rate, self.discriminator_rate) > 0 and 0 <= self.momentum < 1):
            raise UserError("the rates of a generator's training must be positive and its momentum within [0, 1)")
        if not 0 <= self.average < 1:
            raise UserError(f"the average of a generator's weights keeps a share within [0, 1), not {self.average}")


def train_generator(
    images: Tensor,
    labels: Tensor,
    num_classes: int,
    architecture: ConditionalGan,
    settings: GanTraining,
    streams: Streams,
    progress: Progress | None = None,
    kept: KeptTensors | None = None,
) -> ConditionalGenerator:
    """Train a generator on real images; the same streams give the same weights (CPU: the same bytes).

    Args:
        images: [N, C, H, W] floats in [0, 1], on the device that is to train.
        labels: [N] int64, below ``num_classes``.
        num_classes: K.
        architecture: sizes of both networks.
        settings: see ``GanTraining``.
        streams: named streams, e.g. ``partial(stream, seed, "generator")``.
        progress: see ``Progress``.
        kept: where the training is kept from time to time, and goes on from if something is there.

    Returns:
        The generator with averaged weights, frozen, on the images' device.

    Raises:
        UserError: images or labels are unusable, or the training diverges.
    """
    _check(images, labels, num_classes)
    generator, duel = _begin(images, num_classes, architecture, settings, streams)
    for step in range(duel.resume(kept.found() if kept else {}), settings.steps):
        rows = streams("batches", step).integers(0, len(images), settings.batch_size).to(images.device)
        real = images[rows], F.one_hot(labels[rows], num_classes).to(images.dtype)
        losses = duel.step(step, real, _draw(generator, settings, streams, step, images))
        if not all(isfinite(loss) for loss in losses):
            raise UserError(f"the generator's training diverged in step {step}: lower its rates or choose another seed")
        if kept is not None:
            kept.offer(partial(duel.state, step + 1))
        if progress is not None:
            progress(step, *losses)
    duel.adopt_average()
    _measure_statistics(generator, settings, streams, images)
    generator.frozen()
    return generator


def _begin(
    images: Tensor, num_classes: int, architecture: ConditionalGan, settings: GanTraining, streams: Streams
) -> tuple[ConditionalGenerator, Duel]:
    shape = (images.shape[1], images.shape[2], images.shape[3])
    generator = architecture.generator(shape, num_classes, streams("initialisation", "generator")).to(images)
    judge = architecture.discriminator(shape, num_classes, streams("initialisation", "discriminator")).to(images)
    rates = settings.generator_rate, settings.discriminator_rate
    return generator, Duel(generator, judge, rates, settings.momentum, settings.average)


def _draw(
    generator: ConditionalGenerator, settings: GanTraining, streams: Streams, step: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return latents and one-hot classes of one batch."""
    latents = streams("latents", step).normal(settings.batch_size, generator.latent_size).to(like)
    labels = streams("labels", step).integers(0, generator.num_classes, settings.batch_size)
    return latents, F.one_hot(labels, generator.num_classes).to(like)


def _measure_statistics(generator: ConditionalGenerator, settings: GanTraining, streams: Streams, like: Tensor) -> None:
    """Set each running mean and variance to the plain average over fresh batches of generated images."""
    layers = batch_norms(generator).values()
    before = [layer.momentum for layer in layers]
    with torch.no_grad():
        for number in range(STATISTICS_BATCHES):
            for layer in layers:
                layer.momentum = 1 / (number + 1)
            generator.generate(*_draw(generator, settings, streams, settings.steps + number, like))
    for layer, momentum in zip(layers, before, strict=True):
        layer.momentum = momentum


def _check(images: Tensor, labels: Tensor, num_classes: int) -> None:
    if images.dim() != 4 or len(images) == 0 or not images.is_floating_point():
        raise UserError(f"a generator is trained on float images [N, C, H, W], not {images.dtype} {list(images.shape)}")
    if not (float(images.min()) >= 0 and float(images.max()) <= 1):
        raise UserError("a generator is trained on images in [0, 1]: divide them by the brightest value")
    if labels.shape != images.shape[:1] or int(labels.min()) < 0 or int(labels.max()) >= num_classes:
        raise UserError(f"a generator needs one label within 0..{num_classes - 1} for each of its {len(images)} images")
