"""Training of a class-conditional GAN: hinge loss, Adam, and an average of the generator's weights.

Sources: hinge loss and spectral normalisation as in "Spectral Normalization for Generative Adversarial Networks"; the
running average of the weights as in "Progressive Growing of GANs", section 4; the statistics of batch normalisation
are measured anew for the averaged weights, as in "Large Scale GAN Training" (BigGAN), appendix C.1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.batch_norm import batch_norms
from leaklab.models.generators.conditional_gan import ConditionalGan, ConditionalGenerator
from leaklab.records.errors import UserError
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

    Returns:
        The generator with averaged weights, frozen, on the images' device.

    Raises:
        UserError: images or labels are unusable, or the training diverges.
    """
    _check(images, labels, num_classes)
    shape = (images.shape[1], images.shape[2], images.shape[3])
    generator = architecture.generator(shape, num_classes, streams("initialisation", "generator")).to(images)
    judge = architecture.discriminator(shape, num_classes, streams("initialisation", "discriminator")).to(images)
    duel = _Duel(generator, judge, settings)
    averaged = [p.detach().clone() for p in generator.parameters()]
    for step in range(settings.steps):
        rows = streams("batches", step).integers(0, len(images), settings.batch_size).to(images.device)
        real = images[rows], F.one_hot(labels[rows], num_classes).to(images.dtype)
        losses = duel.step(*real, _draw(generator, settings, streams, step, images))
        if not all(isfinite(loss) for loss in losses):
            raise UserError(f"the generator's training diverged in step {step}: lower its rates or choose another seed")
        # a short past first: the initial weights must not stay in the average
        past = min(settings.average, (1 + step) / (10 + step))
        torch._foreach_lerp_(averaged, [p.detach() for p in generator.parameters()], 1 - past)
        if progress is not None:
            progress(step, *losses)
    _adopt(generator, averaged)
    _measure_statistics(generator, settings, streams, images)
    generator.frozen()
    return generator


class _Duel:
    """Both networks and their optimizers."""

    def __init__(self, generator: ConditionalGenerator, judge: nn.Module, settings: GanTraining) -> None:
        self.generator, self.judge = generator.train(), judge.train()
        betas = (settings.momentum, 0.999)
        self.of_generator = torch.optim.Adam(generator.parameters(), lr=settings.generator_rate, betas=betas)
        self.of_judge = torch.optim.Adam(judge.parameters(), lr=settings.discriminator_rate, betas=betas)

    def step(self, real: Tensor, classes: Tensor, drawn: tuple[Tensor, Tensor]) -> tuple[float, float]:
        """Update the discriminator, then the generator; return their hinge losses before the update."""
        generated = self.generator.generate(*drawn)
        scores = self.judge(torch.cat([real, generated.detach()]), torch.cat([classes, drawn[1]]))
        for_real, for_generated = scores.split([len(real), len(generated)])
        judged = F.relu(1 - for_real).mean() + F.relu(1 + for_generated).mean()
        self.of_judge.zero_grad()
        torch.autograd.backward(judged)
        self.of_judge.step()
        self.judge.requires_grad_(requires_grad=False)
        deceived = -self.judge(generated, drawn[1]).mean()
        self.of_generator.zero_grad()
        torch.autograd.backward(deceived)
        self.of_generator.step()
        self.judge.requires_grad_()
        return float(judged.detach()), float(deceived.detach())


def _draw(
    generator: ConditionalGenerator, settings: GanTraining, streams: Streams, step: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Return latents and one-hot classes of one batch."""
    latents = streams("latents", step).normal(settings.batch_size, generator.latent_size).to(like)
    labels = streams("labels", step).integers(0, generator.num_classes, settings.batch_size)
    return latents, F.one_hot(labels, generator.num_classes).to(like)


def _adopt(generator: ConditionalGenerator, weights: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(generator.parameters(), weights, strict=True):
            parameter.copy_(value)


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
