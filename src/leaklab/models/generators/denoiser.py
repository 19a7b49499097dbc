"""The generator ``denoiser``: a Gaussian of each class, and a network that is trained on public images in minutes.

The loss is the squared error over the one that the Wiener filter expects (``denoising``): it begins at 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import cos, isfinite, log, pi

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.base import Shape
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.denoising import DenoiserTraining, DenoisingGenerator, UNet
from leaklab.records.bounds import Count, Natural, NonNegative
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import Stream

LOWEST, HIGHEST = 0.02, 1.2
"""Deviations of the noise, on the [0, 1] scale, between which it is trained; log-uniform."""
STEP, AVERAGE = "step", "average"
Streams = Callable[..., Stream]


@dataclass(frozen=True)
class Denoiser:
    """The settings that make the generator.

    Attributes:
        width: channels of its network at half the images' sides.
        floor: as in ``class-gaussian``.
        pooled: as in ``class-gaussian``.
        per_class: as in ``class-gaussian``.
    """

    width: Count = 32
    floor: NonNegative = 0.02
    pooled: bool = False
    per_class: Natural = 0

    def generator(self, image_shape: Shape, num_classes: int) -> DenoisingGenerator:
        """Return the generator before it has learnt, float32 on the CPU, without its memory's values.

        Raises:
            UserError: images are too large, or their sides cannot be halved twice.
        """
        with torch.device("meta"):  # torch's constructors would otherwise draw from the global generator
            ClassGaussian(floor=self.floor).generator(image_shape, num_classes)  # refuses what is too large for it
            network = DenoisingGenerator(num_classes, image_shape, pooled=self.pooled, width=self.width)
        return network.to_empty(device="cpu")

    def trained(
        self,
        images: Tensor,
        labels: Tensor,
        num_classes: int,
        settings: DenoiserTraining,
        streams: Streams,
        progress: Callable[[int, float], None] | None = None,
        kept: KeptTensors | None = None,
    ) -> DenoisingGenerator:
        """Return the generator that these images teach, frozen, on their device; the same streams, the same weights.

        Args:
            images: [N, C, H, W] floats in [0, 1].
            labels: [N] int64.
            num_classes: K.
            settings: see ``DenoiserTraining``.
            streams: named streams; ``streams("batches", step)`` draws a batch, ``streams("noise", step)`` its noise.
            progress: called with a step's number and its loss, which is 1 for the Wiener filter.
            kept: where the training is kept from time to time, and goes on from if something is there.

        Raises:
            UserError: a class has too few images, or the training diverges.
        """
        gaussian = ClassGaussian(floor=self.floor, pooled=self.pooled).fitted(images, labels, num_classes)
        generator = self.generator(gaussian.image_shape, num_classes).to(images.device)
        with torch.no_grad():
            generator.mean.copy_(gaussian.mean)
            generator.factor.copy_(gaussian.factor)
        generator.requires_grad_(requires_grad=False)
        initialise(generator.network, streams("initialisation", "denoiser"))
        train(generator, images, labels, settings, streams, progress, kept)
        generator.frozen()
        return generator


def initialise(network: UNet, draws: Stream) -> None:
    """Draw weights from N(0, 1 / fan-in), biases zero; the last layer is zero, so that F is."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                parameter.copy_(draws.normal(*parameter.shape) / fan_in**0.5)
        network.leave.weight.zero_()


def train(
    generator: DenoisingGenerator,
    images: Tensor,
    labels: Tensor,
    settings: DenoiserTraining,
    streams: Streams,
    progress: Callable[[int, float], None] | None,
    kept: KeptTensors | None,
) -> None:
    """Train the network of a generator in place, and give it the averaged weights.

    Raises:
        UserError: the loss is not finite.
    """
    network = generator.network.requires_grad_().train()
    weights = list(network.parameters())
    optimizer = torch.optim.AdamW(weights, lr=settings.rate)
    averaged = [p.detach().clone() for p in weights]
    for step in range(_resumed(weights, averaged, optimizer, kept.found() if kept else {}), settings.steps):
        loss = _loss(generator, images, labels, settings.batch_size, partial(_of_step, streams, step))
        if not isfinite(float(loss.detach())):
            raise UserError(f"the denoiser's training diverged in step {step}: lower its rate or choose another seed")
        optimizer.param_groups[0]["lr"] = settings.rate * (1 + cos(pi * step / settings.steps)) / 2
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        past = min(settings.average, (1 + step) / (10 + step))
        torch._foreach_lerp_(averaged, [p.detach() for p in weights], 1 - past)
        if kept is not None:
            kept.offer(partial(_state, weights, averaged, optimizer, step + 1))
        if progress is not None:
            progress(step, float(loss.detach()))
    with torch.no_grad():
        for parameter, value in zip(weights, averaged, strict=True):
            parameter.copy_(value)


def _of_step(streams: Streams, step: int, name: str) -> Stream:
    return streams(name, step)


def _loss(
    generator: DenoisingGenerator, images: Tensor, labels: Tensor, batch: int, draws: Callable[[str], Stream]
) -> Tensor:
    """Return the mean squared error of one batch over that which the Wiener filter expects."""
    rows = draws("batches").integers(0, len(images), batch).to(images.device)
    truth, classes = images[rows], F.one_hot(labels[rows], generator.num_classes).to(images.dtype)
    noise = draws("noise")
    span = log(HIGHEST / LOWEST)
    deviations = (LOWEST * (span * noise.uniform(batch)).exp()).to(truth)
    blurred = truth + deviations[:, None, None, None] * noise.normal(*truth.shape).to(truth)
    with torch.no_grad():
        error = generator.filtered(blurred.flatten(1), deviations, classes)[1]
    misses = (generator.denoised(blurred, deviations, classes) - truth).flatten(1)
    return ((misses**2).mean(1) / error**2).mean()


def _state(
    weights: list[nn.Parameter], averaged: list[Tensor], optimizer: torch.optim.Optimizer, done: int
) -> dict[str, Tensor]:
    """Return all that the next step depends on, by name."""
    tensors = {STEP: torch.tensor(done)}
    for i, (weight, average) in enumerate(zip(weights, averaged, strict=True)):
        tensors |= {f"weight/{i}": weight.detach(), f"{AVERAGE}/{i}": average}
        tensors |= {f"adam/{i}/{key}": value for key, value in optimizer.state[weight].items()}
    return tensors


def _resumed(
    weights: list[nn.Parameter],
    averaged: list[Tensor],
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
) -> int:
    """Take over what ``_state`` returned; return the number of steps done (0 for nothing)."""
    if not tensors:
        return 0
    with torch.no_grad():
        for i, (weight, average) in enumerate(zip(weights, averaged, strict=True)):
            weight.copy_(tensors[f"weight/{i}"])
            average.copy_(tensors[f"{AVERAGE}/{i}"])
            prefix = f"adam/{i}/"
            own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
            # torch keeps Adam's count of steps on the CPU, wherever the parameter is
            optimizer.state[weight] = {key: v if key == STEP else v.to(weight) for key, v in own.items()}
    return int(tensors[STEP])


PLUGIN = Denoiser
