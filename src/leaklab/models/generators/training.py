"""Training of a class-conditional GAN: hinge loss, Adam, and an average of the generator's weights.

Source: see ``duel``; the statistics of batch normalisation are measured anew for the averaged weights, as in "Large
Scale GAN Training" (BigGAN), appendix C.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.generators.base import Generator
from leaklab.models.generators.conditional_gan import ConditionalGan, ConditionalGenerator
from leaklab.models.normalisation import batch_norms
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import Stream

# Generator against discriminator: one step of both, and all that the next step depends on.

STEP = "step"
AVERAGE = "average"


class Duel:
    """Both networks, their optimizers, and the running average of the generator's weights.

    Args:
        generator: with its initial weights.
        judge: the discriminator, with its initial weights.
        rates: Adam's rates for the generator and for the discriminator.
        momentum: Adam's first decay, for both.
        average: weight of the past in the running average.
    """

    def __init__(
        self, generator: Generator, judge: nn.Module, rates: tuple[float, float], momentum: float, average: float
    ) -> None:
        self.generator, self.judge, self.average = generator.train(), judge.train(), average
        self.averaged = [p.detach().clone() for p in generator.parameters()]
        self._networks: dict[str, nn.Module] = {"generator": generator, "judge": judge}
        self._adam = {
            name: torch.optim.Adam(network.parameters(), lr=rate, betas=(momentum, 0.999))
            for (name, network), rate in zip(self._networks.items(), rates, strict=True)
        }

    def step(self, number: int, real: tuple[Tensor, Tensor], drawn: tuple[Tensor, Tensor]) -> tuple[float, float]:
        """Update the discriminator, then the generator and its average; return both losses before the update.

        Args:
            number: of the step, from 0.
            real: images and their class probabilities.
            drawn: latents and class probabilities of as many images to generate.
        """
        (images, classes), generated = real, self.generator.generate(*drawn)
        scores = self.judge(torch.cat([images, generated.detach()]), torch.cat([classes, drawn[1]]))
        for_real, for_generated = scores.split([len(images), len(generated)])
        judged = F.relu(1 - for_real).mean() + F.relu(1 + for_generated).mean()
        self._descend("judge", judged)
        self.judge.requires_grad_(requires_grad=False)
        deceived = -self.judge(generated, drawn[1]).mean()
        self._descend("generator", deceived)
        self.judge.requires_grad_()
        # a short past first: the initial weights must not stay in the average
        past = min(self.average, (1 + number) / (10 + number))
        torch._foreach_lerp_(self.averaged, [p.detach() for p in self.generator.parameters()], 1 - past)
        return float(judged.detach()), float(deceived.detach())

    def adopt_average(self) -> None:
        """Give the generator the averaged weights."""
        with torch.no_grad():
            for parameter, value in zip(self.generator.parameters(), self.averaged, strict=True):
                parameter.copy_(value)

    def state(self, done: int) -> dict[str, Tensor]:
        """Return all that the next step depends on, by name, and the number of steps done."""
        tensors = {STEP: torch.tensor(done)} | {f"{AVERAGE}/{i}": value for i, value in enumerate(self.averaged)}
        for name, network in self._networks.items():
            tensors |= {f"{name}/{key}": value for key, value in network.state_dict().items()}
            for i, parameter in enumerate(network.parameters()):
                moments = self._adam[name].state[parameter].items()
                tensors |= {f"{name} adam/{i}/{key}": value for key, value in moments}
        return tensors

    def resume(self, tensors: Mapping[str, Tensor]) -> int:
        """Take over what ``state`` returned; return the number of steps done (0 for nothing)."""
        if not tensors:
            return 0
        for own, value in zip(self.averaged, _below(tensors, AVERAGE).values(), strict=True):
            own.copy_(value)
        for name, network in self._networks.items():
            network.load_state_dict(_below(tensors, name), strict=True)
            for i, parameter in enumerate(network.parameters()):
                moments = _below(tensors, f"{name} adam/{i}").items()
                # torch keeps Adam's count of steps on the CPU, wherever the parameter is
                self._adam[name].state[parameter] = {
                    key: value if key == STEP else value.to(parameter) for key, value in moments
                }
        return int(tensors[STEP])

    def _descend(self, name: str, loss: Tensor) -> None:
        self._adam[name].zero_grad()
        torch.autograd.backward(loss)
        self._adam[name].step()


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix/``; numbered ones by their numbers."""
    found = {name.removeprefix(f"{prefix}/"): t for name, t in tensors.items() if name.startswith(f"{prefix}/")}
    if all(name.isdigit() for name in found):
        return {name: found[name] for name in sorted(found, key=int)}
    return found


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
