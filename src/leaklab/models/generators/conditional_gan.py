"""A small class-conditional GAN for images of 28x28 and 32x32, sized for training on one CPU core.

Sources: the generator follows "Unsupervised Representation Learning with Deep Convolutional GANs" (DCGAN), with an
embedding of the class joined to the latent; the discriminator follows "cGANs with Projection Discriminator" under
"Spectral Normalization for Generative Adversarial Networks".
"""

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

from leaklab.data.download import weights_path
from leaklab.models.base import Shape
from leaklab.models.generators.base import Generator
from leaklab.models.normalisation import batch_norms, reset, without_counters
from leaklab.models.published import with_published
from leaklab.records.bounds import Count
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

# both networks change the resolution twice by a factor of two
REDUCTION = 4
SLOPE = 0.2
# DCGAN's law of initial weights
WEIGHT_STD = 0.02


class ConditionalGenerator(Generator):
    """Latent and class embedding -> affine layer -> two transposed convolutions, each twice the size -> sigmoid."""

    def __init__(self, latent_size: int, embedding: int, width: int, num_classes: int, image_shape: Shape) -> None:
        """Make the layers; call it on the meta device (``ConditionalGan.generator`` does)."""
        super().__init__(latent_size, num_classes, image_shape)
        self.first_shape = (4 * width, *_first_sides(image_shape))
        self.embed = nn.Linear(num_classes, embedding, bias=False)
        self.project = nn.Linear(latent_size + embedding, prod(self.first_shape), bias=False)
        self.norm0 = nn.BatchNorm2d(4 * width)
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(2 * width)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.paint = nn.Conv2d(width, image_shape[0], 3, padding=1)

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N, d], [N, K] -> [N, C, H, W] in [0, 1]."""
        joined = torch.cat([latents, self.embed(classes)], 1)
        values = self.project(joined).view(-1, *self.first_shape)
        values = F.relu(self.norm0(values))
        values = F.relu(self.norm1(self.up1(values)))
        values = F.relu(self.norm2(self.up2(values)))
        return torch.sigmoid(self.paint(values))


class ProjectionDiscriminator(nn.Module):
    """Three convolutions, sum over positions, and a score that is affine plus the projection on the class's vector."""

    def __init__(self, width: int, num_classes: int, image_shape: Shape) -> None:
        """Make the layers; call it on the meta device (``ConditionalGan.discriminator`` does)."""
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(image_shape[0], width, 4, stride=2, padding=1))
        self.conv2 = spectral_norm(nn.Conv2d(width, 2 * width, 4, stride=2, padding=1))
        self.conv3 = spectral_norm(nn.Conv2d(2 * width, 4 * width, 3, padding=1))
        self.judge = spectral_norm(nn.Linear(4 * width, 1))
        self.embed = spectral_norm(nn.Linear(num_classes, 4 * width, bias=False))

    def forward(self, images: Tensor, classes: Tensor) -> Tensor:
        """[N, C, H, W] in [0, 1], [N, K] -> scores [N]; large for what looks real and of its class."""
        values = 2 * images - 1
        for layer in (self.conv1, self.conv2, self.conv3):
            values = F.leaky_relu(layer(values), SLOPE)
        features = values.sum((2, 3))
        score: Tensor = self.judge(features)[:, 0] + (self.embed(classes) * features).sum(1)
        return score


@dataclass(frozen=True)
class ConditionalGan:
    """The settings that make both networks.

    Attributes:
        latent_size: numbers in one latent.
        embedding: numbers in a class's embedding.
        width: channels next to the image; 2 and 4 times as many further inside.
    """

    latent_size: Count = 64
    embedding: Count = 32
    width: Count = 32

    def generator(self, image_shape: Shape, num_classes: int, stream: Stream | None = None) -> ConditionalGenerator:
        """Return the generator, float32 on the CPU; weights are drawn from ``stream``, zero without one.

        Raises:
            UserError: a size is not positive, or a side of the images is not a multiple of 4.
        """
        self._check(image_shape)
        with torch.device("meta"):  # torch's constructors would otherwise draw from the global generator
            network = ConditionalGenerator(self.latent_size, self.embedding, self.width, num_classes, image_shape)
        without_counters(network)
        _draw(network, stream)
        if stream is not None:  # as wide as a latent, so that the class weighs as much from the first step
            network.embed.weight.detach().copy_(stream.normal(*network.embed.weight.shape))
        return network

    def discriminator(self, image_shape: Shape, num_classes: int, stream: Stream) -> ProjectionDiscriminator:
        """Return the discriminator, float32 on the CPU, its weights drawn from ``stream``.

        Raises:
            UserError: as ``generator``.
        """
        self._check(image_shape)
        with torch.device("meta"):
            network = ProjectionDiscriminator(self.width, num_classes, image_shape)
        _draw(network, stream)
        for vector in network.buffers():  # the power iterations' vectors
            vector.copy_(F.normalize(stream.normal(*vector.shape), dim=0))
        return network

    def _check(self, image_shape: Shape) -> None:
        if min(self.latent_size, self.embedding, self.width) < 1:
            raise UserError("generator 'conditional-gan' needs positive sizes: raise latent_size, embedding or width")
        if any(side % REDUCTION for side in image_shape[1:]):
            raise UserError(
                f"generator 'conditional-gan' makes images whose sides are multiples of {REDUCTION}, not "
                f"{image_shape[1]}x{image_shape[2]}: choose another dataset or generator"
            )


def _first_sides(image_shape: Shape) -> tuple[int, int]:
    return image_shape[1] // REDUCTION, image_shape[2] // REDUCTION


def _draw(network: nn.Module, stream: Stream | None) -> None:
    """Give the network memory: kernels from N(0, 0.02^2), biases zero, batch normalisations the identity."""
    network.to_empty(device="cpu")
    for layer in batch_norms(network).values():
        reset(layer)
    inside = {id(p) for layer in batch_norms(network).values() for p in layer.parameters()}
    with torch.no_grad():
        for parameter in network.parameters():
            if id(parameter) in inside:
                continue
            parameter.zero_()
            if parameter.dim() > 1 and stream is not None:
                parameter.copy_(WEIGHT_STD * stream.normal(*parameter.shape))


# A published generator of digits: the perceptron of I. Goodfellow et al., "Generative adversarial nets", on MNIST.


LATENT, HIDDEN = 64, 256
IMAGE: Shape = (1, 28, 28)
DIGITS = 10


class MnistGanGenerator(Generator):
    """Two hidden layers of 256 units with ReLU, then tanh; it knows no classes, and looks at no probabilities.

    So a search among its images has the class to find too: the label tells it what loss to take and not where to look.
    """

    def __init__(self) -> None:
        """Make the layers; call it on the meta device (``MnistGan.generator`` does)."""
        super().__init__(LATENT, DIGITS, IMAGE)
        pixels = IMAGE[1] * IMAGE[2]
        self.layers = nn.Sequential(
            nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, pixels)
        )

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N, 64], [N, 10] -> [N, 1, 28, 28] in [0, 1]."""
        images: Tensor = (self.layers(latents).tanh() + 1) / 2
        return images.view(-1, *IMAGE)


@dataclass(frozen=True)
class MnistGan:
    """The published generator, which has no settings."""

    @property
    def weights(self) -> str:
        """The name in ``config/weights.yaml``."""
        return "mnist-gan"

    def generator(self, image_shape: Shape, num_classes: int) -> Generator:
        """Return the network without its weights, whose memory holds anything; they have to be loaded.

        Raises:
            UserError: it makes other images, or knows other classes.
        """
        with torch.device("meta"):  # torch's constructors would otherwise draw from the global generator
            network = MnistGanGenerator()
        network.require(image_shape, num_classes)
        return network.to_empty(device="cpu")

    def pretrained(self) -> Generator:
        """Return the generator with its published weights, frozen, on the CPU.

        Raises:
            WeightsUnavailableError: they are not at hand.
            UserError: the file holds something else.
        """
        network = self.generator(IMAGE, DIGITS)
        assert isinstance(network, MnistGanGenerator)
        with_published(network.layers, weights_path(self.weights), {})
        return network.frozen()


PLUGINS = {
    "conditional-gan": ConditionalGan,
    "mnist-gan": MnistGan,
}
