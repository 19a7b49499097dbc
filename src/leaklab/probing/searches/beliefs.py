"""What an attacker believes of samples before it sees an update: a Gaussian, as a map from numbers that are N(0, 1).

Of public samples it has the mean of each class and one covariance around these means; the directions that they do not
span have a small deviation, so that fine detail which the update tells can still be found. Without public samples it
knows of a picture that neighbours are alike, by a spectrum that falls with frequency, and of values nothing.

Sources: coordinates in which the prior is N(0, 1), as in ``models/generators/class_gaussian.py``; spectra of natural
images, "Relations between the statistics of natural images and the response properties of cortical cells" (Field).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from leaklab.records.streams import stream

FLOOR = 0.02
"""Smallest deviation of any direction, relative to the range of a picture or the deviation of a value."""
MOST_PUBLIC = 2000
"""Public samples that a covariance is made of, drawn at random of more."""
SMOOTH_DEVIATION = 0.25
"""Of a pixel of a smooth picture, relative to the range."""


@dataclass(frozen=True)
class Beliefs:
    """A Gaussian of samples of one shape.

    Attributes:
        shape: of a sample.
        low: where its own scale has 0, a number or a tensor of ``shape``.
        high: where its own scale has 1.
        means: on the own scale, [K, d]; one row where classes are not told apart.
        coloured: from latents [N, d] that are N(0, 1) to deviations from the mean on the own scale [N, d].
        boxed: whether samples lie between 0 and 1 on the own scale.
        picture: whether samples are [C, H, W].
        words: what is believed, for a page.
    """

    shape: tuple[int, ...]
    low: Tensor
    high: Tensor
    means: Tensor
    coloured: Callable[[Tensor], Tensor] = field(repr=False)
    boxed: bool
    picture: bool
    words: str

    @property
    def size(self) -> int:
        """Numbers in a sample."""
        return prod(self.shape)

    def own(self, latents: Tensor, classes: Tensor | None = None) -> Tensor:
        """Return samples [N, d] on the own scale for latents [N, d].

        Args:
            latents: N(0, 1) before anything is known.
            classes: rows of ``means`` [N], or weights of them [N, K]; None for the mean of all.
        """
        return self.mean(classes) + self.coloured(latents)

    def mean(self, classes: Tensor | None = None) -> Tensor:
        """Return the mean on the own scale, [N, d] or [1, d]."""
        if classes is None or len(self.means) == 1:
            return self.means.mean(0, keepdim=True)
        return self.means[classes]

    def samples(self, own: Tensor) -> Tensor:
        """Return samples [N, ...] as they are held, for [N, d] on the own scale."""
        values: Tensor = self.low + (self.high - self.low) * own.reshape(-1, *self.shape)
        return values


def of_public(
    public: Tensor, classes: Tensor, number: int, scale: tuple[Tensor, Tensor], seed: int, *, boxed: bool
) -> Beliefs:
    """Return the Gaussian of public samples.

    Args:
        public: [P, ...], at least two.
        classes: [P], below ``number``.
        number: of classes; one of which there are no samples has the mean of all.
        scale: where the own scale has 0 and 1.
        seed: of the choice among many.
        boxed: see ``Beliefs``.
    """
    low, high = scale
    own = ((public - low) / (high - low)).flatten(1)
    labels, whole = classes.to(own.device), own.mean(0)
    means = torch.stack([own[labels == k].mean(0) if bool((labels == k).any()) else whole for k in range(number)])
    rows = stream(seed, "public samples").permutation(len(own))[:MOST_PUBLIC].to(own.device)
    around = own[rows] - means[labels[rows]]
    lost = max(1, len(rows) - len(set(labels.tolist())))
    _, values, components = torch.linalg.svd(around / lost**0.5, full_matrices=False)
    longer = (values.square() + FLOOR**2).sqrt() - FLOOR
    kept = longer > 0.05 * FLOOR
    longer, components = longer[kept], components[kept]

    def coloured(latents: Tensor) -> Tensor:
        spanned: Tensor = ((latents @ components.T) * longer) @ components
        return FLOOR * latents + spanned

    words = f"a Gaussian of {len(public)} public samples"
    return Beliefs(tuple(public.shape[1:]), low, high, means, coloured, boxed, len(public.shape) == 4, words)


def of_nothing(shape: tuple[int, ...], scale: tuple[Tensor, Tensor], *, boxed: bool) -> Beliefs:
    """Return what is believed without public samples.

    Args:
        shape: of a sample; [C, H, W] is a picture.
        scale: where the own scale has 0 and 1.
        boxed: see ``Beliefs``.
    """
    low, high = scale
    picture = len(shape) == 3
    middle = low.new_full((1, prod(shape)), 0.5 if boxed else 0.0)
    if not picture:
        width = SMOOTH_DEVIATION if boxed else 1.0
        return Beliefs(shape, low, high, middle, lambda z: width * z, boxed, picture, "nothing but their range")
    gain = _falling(shape[1], shape[2]).to(low)

    def coloured(latents: Tensor) -> Tensor:
        waves = torch.fft.rfft2(latents.reshape(-1, *shape))
        pixels: Tensor = torch.fft.irfft2(gain * waves, s=shape[1:])
        return pixels.flatten(1)

    return Beliefs(shape, low, high, middle, coloured, boxed, picture, "that neighbouring pixels are alike")


def _falling(height: int, width: int) -> Tensor:
    """Return the gain of each wave, [H, W // 2 + 1], whose pixels have the deviation ``SMOOTH_DEVIATION``."""
    rows, columns = torch.fft.fftfreq(height) * height, torch.fft.rfftfreq(width) * width
    gain = 1 / (1 + (rows[:, None].square() + columns.square()).sqrt())
    both = torch.where((columns == 0) | (2 * columns == width), 1.0, 2.0)  # waves that stand for two
    power = (gain.square() * both).sum() / (height * width)
    scaled: Tensor = gain * SMOOTH_DEVIATION / power.sqrt()
    return scaled.clamp(min=FLOOR)
