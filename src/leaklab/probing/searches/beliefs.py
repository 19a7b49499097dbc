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

from leaklab.records import tensor_algebra
from leaklab.records.streams import stream

FLOOR = 0.02
"""Smallest deviation of any direction, relative to the range of a picture or the deviation of a value."""
MOST_PUBLIC, MOST_NUMBERS = 2000, 20_000_000
"""Public samples that a covariance is made of, drawn at random of more, and numbers in them together."""
SMOOTH_DEVIATION = 0.25
"""Of a pixel of a smooth picture, relative to the range."""


@dataclass(frozen=True)
class Beliefs:
    """A Gaussian of samples of one shape.

    Attributes:
        shape: of a sample.
        low: where its own scale has 0, a number or a tensor of ``shape``.
        high: where its own scale has 1.
        means: on the own scale, [M, d]; the last row is that of all samples.
        rows: which of the means a class has, [K]; None where classes are not told apart.
        coloured: from latents [N, d] that are N(0, 1) to deviations from the mean on the own scale [N, d].
        boxed: whether samples lie between 0 and 1 on the own scale.
        picture: whether samples are [C, H, W].
        words: what is believed, for a page.
    """

    shape: tuple[int, ...]
    low: Tensor
    high: Tensor
    means: Tensor
    rows: Tensor | None
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
            classes: [N]; None for the mean of all.
        """
        return self.mean(classes) + self.coloured(latents)

    def mean(self, classes: Tensor | None = None) -> Tensor:
        """Return the mean on the own scale, [N, d] or [1, d]."""
        if classes is None or self.rows is None:
            return self.means[-1:]
        return self.means[self.rows[classes]]

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
    labels, present = classes.cpu(), sorted(set(classes.tolist()))
    means = torch.stack([*(own[(labels == k).to(own.device)].mean(0) for k in present), own.mean(0)])
    places = torch.full((number,), len(present))
    places[present] = torch.arange(len(present))
    kept = min(MOST_PUBLIC, max(64, MOST_NUMBERS // own.shape[1]))
    drawn = stream(seed, "public samples").permutation(len(own))[:kept]
    around = own[drawn] - means[places[labels[drawn]]]
    lost = max(1, len(drawn) - len(set(labels[drawn].tolist())))
    _, values, components = tensor_algebra.svd(around / lost**0.5)
    longer = (values.square() + FLOOR**2).sqrt() - FLOOR
    longer, components = longer[longer > 0.05 * FLOOR], components[longer > 0.05 * FLOOR]

    def coloured(latents: Tensor) -> Tensor:
        spanned: Tensor = ((latents @ components.T) * longer) @ components
        return FLOOR * latents + spanned

    words = f"a Gaussian of {len(public)} public samples"
    return Beliefs(tuple(public.shape[1:]), low, high, means, places, coloured, boxed, len(public.shape) == 4, words)


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
        return Beliefs(shape, low, high, middle, None, lambda z: width * z, boxed, picture, "nothing but their range")
    gain = _falling(shape[1], shape[2]).to(low)

    def coloured(latents: Tensor) -> Tensor:
        waves = torch.fft.rfft2(latents.reshape(-1, *shape))
        pixels: Tensor = torch.fft.irfft2(gain * waves, s=shape[1:])
        return pixels.flatten(1)

    return Beliefs(shape, low, high, middle, None, coloured, boxed, picture, "that neighbouring pixels are alike")


def _falling(height: int, width: int) -> Tensor:
    """Return the gain of each wave, [H, W // 2 + 1], whose pixels have the deviation ``SMOOTH_DEVIATION``."""
    rows, columns = torch.fft.fftfreq(height) * height, torch.fft.rfftfreq(width) * width
    gain = 1 / (1 + (rows[:, None].square() + columns.square()).sqrt())
    both = torch.where((columns == 0) | (2 * columns == width), 1.0, 2.0)  # waves that stand for two
    power = (gain.square() * both).sum() / (height * width)
    scaled: Tensor = gain * SMOOTH_DEVIATION / power.sqrt()
    return scaled.clamp(min=FLOOR)
