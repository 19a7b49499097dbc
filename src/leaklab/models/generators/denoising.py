"""A Gaussian of each class and a small network that denoises its images better than the Gaussian does.

As a generator it draws what ``class-gaussian`` draws. What is new is ``denoised``: an image that is blurred by noise of
deviation s comes back as the mean of what it may have been::

    D(x, s, y) = W(x, s, y) + e(s, y) F(x - m_y, W - m_y, m_y; s, y),
    W(x, s, y) = m_y + V_y diag(l_k / (l_k + s^2)) V_y' (x - m_y),    e^2 = mean of l_k s^2 / (l_k + s^2)

W is the Wiener filter, the best that can be had of mean and covariance alone, and e the error that it expects. F is a
U-net whose last layer begins at zero, so that the training begins at the Gaussian, with a loss of 1, and whatever it
learns is beyond the Gaussian. F is given both differences over their deviations.

Sources: denoisers as priors, "Plug-and-Play Priors for Model Based Reconstruction" (Venkatakrishnan, Bouman, Wohlberg);
a network around a filter that is scaled by the noise, "Elucidating the Design Space of Diffusion-Based Generative
Models" (Karras et al.), section 5; shift and scale by features, "FiLM" (Perez et al.).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.models.base import Shape
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.records.errors import UserError

FEATURES = 8
"""Frequencies by which a network is told the logarithm of the noise."""
REDUCTION = 4


class Residual(nn.Module):
    """Two 3x3 convolutions whose input is added to what they make; told the noise and the class between them."""

    def __init__(self, width: int, told: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.film = nn.Linear(told, 2 * width)

    def forward(self, maps: Tensor, told: Tensor) -> Tensor:
        """[N, width, H, W], [N, told] -> [N, width, H, W]."""
        scale, shift = self.film(told)[:, :, None, None].chunk(2, 1)
        inner = self.first(F.silu(maps)) * (1 + scale) + shift
        out: Tensor = maps + self.second(F.silu(inner))
        return out


class UNet(nn.Module):
    """The network F: images at half their sides and ``width`` channels, inside at a quarter and twice as many."""

    def __init__(self, channels: int, num_classes: int, width: int) -> None:
        super().__init__()
        told = 2 * width
        self.told = nn.Linear(2 * FEATURES + num_classes, told)
        self.enter = nn.Conv2d(3 * 4 * channels, width, 3, padding=1)
        self.before = nn.ModuleList(Residual(width, told) for _ in range(2))
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.inside = nn.ModuleList(Residual(2 * width, told) for _ in range(3))
        self.up = nn.Conv2d(2 * width, 4 * width, 1)
        self.after = nn.ModuleList(Residual(width, told) for _ in range(2))
        self.leave = nn.Conv2d(width, 4 * channels, 3, padding=1)

    def forward(self, images: Tensor, noise: Tensor, classes: Tensor) -> Tensor:
        """[N, 3 C, H, W], [N], [N, K] -> [N, C, H, W]."""
        angles = noise.log()[:, None] * torch.arange(1, FEATURES + 1).to(noise) / 2
        told = F.silu(self.told(torch.cat([angles.sin(), angles.cos(), classes], 1)))
        maps = self.enter(F.pixel_unshuffle(images, 2))
        for block in self.before:
            maps = block(maps, told)
        small = self.down(maps)
        for block in self.inside:
            small = block(small, told)
        maps = maps + F.pixel_shuffle(self.up(small), 2)
        for block in self.after:
            maps = block(maps, told)
        out: Tensor = F.pixel_shuffle(self.leave(F.silu(maps)), 2)
        return out


class DenoisingGenerator(ClassGaussianGenerator):
    """Draws images of the Gaussian, and denoises better than it.

    Attributes:
        network: the U-net F.
    """

    def __init__(self, num_classes: int, image_shape: Shape, *, pooled: bool = False, width: int = 32) -> None:
        """Make a generator of black images whose denoiser knows nothing; call it on the meta device.

        Raises:
            UserError: sides that cannot be halved twice.
        """
        channels, height, side = image_shape
        if height % REDUCTION or side % REDUCTION:
            raise UserError(
                f"generator 'denoiser' takes images whose sides are multiples of {REDUCTION}, not {height}x{side}: "
                "choose another dataset, or class-gaussian"
            )
        super().__init__(channels * height * side, num_classes, image_shape, pooled=pooled)
        self.network = UNet(channels, num_classes, width)

    def denoised(self, images: Tensor, noise: Tensor, classes: Tensor) -> Tensor:
        """Return D: what images were before noise was added to them, by the mean of what they may have been.

        Args:
            images: [N, C, H, W], on the [0, 1] scale or near it.
            noise: [N] deviations of the noise, above 0.
            classes: one-hot [N, K].

        Returns:
            [N, C, H, W].
        """
        shape = (-1, *self.image_shape)
        filtered, error, mean = self.filtered(images.flatten(1), noise, classes)
        variance = self.variance()[classes.argmax(1) % len(self.factor)]
        # a network learns from numbers of size one, whatever the noise and the contrast of the images are
        distance = (images.flatten(1) - mean) / (noise**2 + variance).sqrt()[:, None]
        inside = (filtered - mean) / variance.sqrt()[:, None]
        seen = torch.cat([one.view(shape) for one in (distance, inside, mean)], 1)
        beyond: Tensor = self.network(seen, noise, classes)
        return filtered.view(shape) + error[:, None, None, None] * beyond

    def filtered(self, flat: Tensor, noise: Tensor, classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Wiener filter's answers [N, P], the errors [N] it expects, and the classes' means [N, P].

        Args:
            flat: images [N, P].
            noise: [N].
            classes: one-hot [N, K].
        """
        labels = classes.argmax(1)
        mean, filtered, error = self.mean[labels], torch.zeros_like(flat), torch.zeros_like(noise)
        groups = labels % len(self.factor)
        for group in sorted(set(groups.tolist())):
            rows = (groups == group).nonzero()[:, 0]
            components, variances = self.spectrum(group)
            kept = variances / (variances + noise[rows, None] ** 2)
            filtered[rows] = ((flat[rows] - mean[rows]) @ components * kept) @ components.T
            error[rows] = (kept * noise[rows, None] ** 2).mean(1).sqrt()
        return filtered + mean, error, mean

    def variance(self) -> Tensor:
        """Return the mean variance of a pixel of each class, or of all where they share their components: [G]."""
        return (self.factor**2).sum(2).mean(1)

    def spectrum(self, label: int) -> tuple[Tensor, Tensor]:
        """Return the components [P, P] of a class and their variances [P], the floor's included."""
        factor = self.factor_of(label)
        variances = (factor**2).sum(0)
        return factor / variances.sqrt().clamp(min=torch.finfo(factor.dtype).tiny), variances

    def left(self, noise: float, label: int) -> Tensor:
        """Return what the Gaussian does not know of an image that it sees through noise: components [P, P].

        Args:
            noise: deviation, above 0.
            label: class of the image.

        Returns:
            The components times the deviations that are left, of variances l s^2 / (l + s^2).
        """
        components, variances = self.spectrum(label)
        return components * (variances * noise**2 / (variances + noise**2)).sqrt()


@dataclass(frozen=True)
class DenoiserTraining:
    """How long and how fast a denoiser learns.

    Attributes:
        steps: number of steps of AdamW, whose rate falls to zero along a half cosine.
        batch_size: images a step, each with noise of its own.
        rate: AdamW's first rate.
        average: weight of the past in the running average of the weights.
    """

    steps: int
    batch_size: int
    rate: float
    average: float
