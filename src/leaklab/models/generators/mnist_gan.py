"""A published generator of digits: the perceptron of I. Goodfellow et al., "Generative adversarial nets", on MNIST."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leaklab.data.download import weights_path
from leaklab.models.base import Shape
from leaklab.models.generators.base import Generator
from leaklab.models.published import with_published

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


PLUGIN = MnistGan
