"""How two samples of a probe are compared, by what they are: pictures, values or tokens.

Pictures are compared by PSNR on the range of the data, values by the deviation of each entry, both in dB; tokens by the
share of positions that are equal, in percent. In dB twice the error is 6 dB less, whatever the range is, so a gain over
a guess means the same for pictures and values.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from leaklab.metrics.gains import MOST_DB

Kind = Literal["picture", "values", "tokens"]
RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
"""In which data is looked for, in this order; data beyond them has its own smallest and largest number."""
SMALLEST_DEVIATION = 1e-3
"""Of an entry, relative to the largest: an entry that never changes has none."""


@dataclass(frozen=True)
class Measure:
    """A way to compare samples.

    Attributes:
        kind: what the samples are.
        low: smallest number of a picture; 0 for others.
        high: largest number of a picture; 1 for others.
        unit: error of each entry [...] of a sample that counts as one, 0 dB: the range of a picture, the deviation of
            each of its values.
    """

    kind: Kind
    low: float
    high: float
    unit: Tensor

    @property
    def sign(self) -> Literal["dB", "%"]:
        """The unit of scores."""
        return "%" if self.kind == "tokens" else "dB"

    @property
    def name(self) -> str:
        """What a score is called."""
        return {"picture": "PSNR", "values": "precision", "tokens": "tokens right"}[self.kind]

    def errors(self, found: Tensor, truth: Tensor) -> Tensor:
        """Return the mean square error of each pair, float64 [N, M]; of tokens the share that differs.

        Args:
            found: [M, ...]; a number that is not finite counts as the middle of the range.
            truth: [N, ...].
        """
        pairs = [one.detach().to("cpu").reshape(len(one), -1) for one in (truth, found)]
        if self.kind == "tokens":
            return (pairs[0][:, None] != pairs[1][None]).double().mean(2)
        middle = (self.low + self.high) / 2 if self.kind == "picture" else 0.0
        own, other = (one.double().nan_to_num(middle, middle, middle) for one in pairs)
        if self.kind == "picture":
            other = other.clamp(self.low, self.high)
        unit = self.unit.reshape(-1)
        # no matrix-product shortcut: its cancellation would blur nearly perfect readings
        apart = torch.cdist(own / unit, other / unit, compute_mode="donot_use_mm_for_euclid_dist")
        return apart.square() / max(1, own.shape[1])

    def scores(self, errors: Tensor) -> Tensor:
        """Return the scores of errors: dB, at most ``MOST_DB``, or percent."""
        if self.kind == "tokens":
            return 100 * (1 - errors)
        return -10 * errors.clamp(min=10 ** (-MOST_DB / 10)).log10()


def measure_of(samples: Tensor, public: Tensor | None = None) -> Measure:
    """Return how samples [N, ...] are compared.

    Integers with one axis are tokens. Numbers with two axes or more are pictures, and so are those with one that lie
    between -1 and 1; all other numbers are values.

    Args:
        samples: as they are held.
        public: samples of others, which tell the range and the deviations better; None for none.
    """
    every = samples if public is None else torch.cat([samples, public.to(samples)])
    every = every.detach().to("cpu")
    if not every.is_floating_point() and every.dim() <= 2:
        return Measure("tokens", 0.0, 1.0, torch.ones(()))
    every = every.double()
    low, high = data_range(every)
    if every.dim() > 2 or (low, high) in RANGES[:2]:
        return Measure("picture", low, high, torch.full(every.shape[1:], high - low).double())
    if public is not None and len(public) > 1:
        unit = public.detach().to("cpu").double().std(0)
    else:
        unit = every.square().mean().sqrt().expand(every.shape[1:]).clone()
    largest = float(unit.max()) or 1.0
    return Measure("values", 0.0, 1.0, unit.clamp(min=SMALLEST_DEVIATION * largest))


def data_range(samples: Tensor) -> tuple[float, float]:
    """Return the range in which samples lie: one of ``RANGES``, or their smallest and largest number."""
    smallest, largest = float(samples.min()), float(samples.max())
    for low, high in RANGES:
        if low <= smallest and largest <= high:
            return low, high
    return smallest, largest
