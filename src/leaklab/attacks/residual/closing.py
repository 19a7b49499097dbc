"""From a picture that is nearly right to one that is exact, and its certificate.

Maps are piecewise affine in the picture: with the derivatives of all cells that are on, the picture is least squares
beside the prior, and a few turns of that go where a search by gradients alone only creeps. Cells that should be off and
are not, and pixels that leave their range, take part as long as they do so. Pixels that end nearer an end of the range
than they are known are put there: blank parts of a picture are exact, and every gradient of a bias says whether they
are.

A picture is certified where the maps determine it, it makes them, and the gradients of all layers are those that it
makes with the errors which the head told: none of it asks for the truth.

Source: ours; Gauss and Newton's method with an active set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.picture import Frontier

WIDTHS = (1e-3, 1e-5, 1e-7)
"""Errors of a map's cells that are allowed for, relative to its size, turn by turn; see ``Frontier.spreads``."""
HALVES, MOVED, CHUNK = 4, 1e-6, 64
"""Of a step at most; step by which derivatives are taken, relative to the range, and how many are at once."""
LAST_TURNS = 2
"""After pixels were put to their ends, at most: one cell at its edge is enough for gradients not to agree."""
SHRINKS = 0.8
"""Share of the expected error that a turn leaves at most: from there on the prior decides, and no turn helps."""
HARD = 1e4
"""Weight of the square by which a pixel leaves its range."""
ENDS = (0.0, 1e-4, 1e-3, 1e-2)
"""Distances from an end of the range, relative to it, within which pixels are put there: the best counts."""
MOST_NUMBERS = 4096
"""Numbers of a picture for which the derivatives of all cells are made."""
VALUES, AGREES, DETERMINED = 1e-4, 1e-3, 1e-4
"""What a certificate may leave: of the maps, of any kernel's gradient, and of the expected error of a pixel, each
relative: 80 dB, as a picture counts as exact from 60."""


@dataclass(frozen=True, eq=False)
class Closed:
    """A picture and what speaks for it.

    Attributes:
        picture: what the network takes, [1, C, H, W].
        misfit: of the maps that it has to make, relative.
        worst: largest relative misfit of a weight's gradient.
        expected: rms error of a pixel, relative to its range; infinite where it was not looked at.
    """

    picture: Tensor
    misfit: float
    worst: float
    expected: float

    @property
    def certified(self) -> bool:
        """Whether it is proven."""
        return self.misfit < VALUES and self.worst < AGREES and self.expected < DETERMINED


class Closing:
    """Least squares for the picture behind a frontier.

    Args:
        frontier: of what was read.
        prior: of the picture as the network takes it.
        gradients: by name.
        noise: rms error of their entries, by name.

    Attributes:
        evaluations: of the whole gradient, so far.
    """

    def __init__(
        self, frontier: Frontier, prior: GaussianPrior, gradients: Mapping[str, Tensor], noise: Mapping[str, float]
    ) -> None:
        self.frontier, self.prior, self.gradients, self.noise = frontier, prior, gradients, noise
        self.structure = frontier.found.structure
        self.range, self.evaluations = prior.high - prior.low, 0

    def closed(self, picture: Tensor, over: Callable[[], bool] = lambda: False) -> Closed:
        """Return the picture that the turns lead to, and what speaks for it.

        Args:
            picture: to begin with, [1, C, H, W]; what the network takes.
            over: asked before each turn, whether time is.
        """
        expected, free = torch.inf, torch.ones_like(self.prior.mean, dtype=torch.bool)
        if picture.numel() <= MOST_NUMBERS and not over():
            for width in WIDTHS:
                before = expected
                picture, expected = self._turn(picture, width, free)
                if over() or expected > SHRINKS * before:
                    break
            picture, free = self._at_ends(picture)
            for number in range(LAST_TURNS):
                still = number > 0 or bool(free.all())
                if over() or (still and self.worst(picture) < AGREES):
                    break
                picture, expected = self._turn(picture, WIDTHS[-1], free)
        return Closed(picture, self.misfit(picture), self.worst(picture), expected)

    def misfit(self, picture: Tensor) -> float:
        """Return the rms misfit of the maps, relative to their size."""
        with torch.no_grad():
            return float(self.frontier.misfit(picture, 1.0).square().mean().sqrt())

    def worst(self, picture: Tensor) -> float:
        """Return the largest relative misfit of a weight's gradient; rounding is allowed for."""
        return max(self._misfits(picture).values())

    def _misfits(self, picture: Tensor) -> dict[str, float]:
        self.evaluations += 1
        made = self.structure.operations.gradients(picture, self.structure.logits, self.frontier.found.last.head)
        found = {}
        for name, own in self.gradients.items():
            if name in made and bool(own.any()):
                rest = max(0.0, float((made[name] - own).norm()) - self.noise[name] * own.numel() ** 0.5)
                found[name] = rest / float(own.norm())
        return found

    def _at_ends(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        """Return the picture with pixels near an end of their range put there, and which are not."""
        best, free, lowest = picture, torch.ones_like(self.prior.mean, dtype=torch.bool), torch.inf
        flat = picture.flatten()
        for near in ENDS:
            low, high = flat < self.prior.low + near * self.range, flat > self.prior.high - near * self.range
            tried = torch.where(low, self.prior.low, torch.where(high, self.prior.high, flat)).view_as(picture)
            rests = list(self._misfits(tried).values())
            value = sum(min(rest, 1.0) for rest in rests) / len(rests)
            if value < lowest:
                best, free, lowest = tried, ~(low | high), value
        return best, free

    def _turn(self, picture: Tensor, width: float, free: Tensor) -> tuple[Tensor, float]:
        """Return the picture after a turn of least squares, and the expected error of a pixel.

        Args:
            picture: [1, C, H, W].
            width: see ``WIDTHS``.
            free: pixels that may move, [P].
        """
        spreads = self.frontier.spreads(width)
        slopes, rest, active = self._slopes(picture)
        flat, rows = picture.flatten(), slopes[active] / spreads[active, None]
        outside = self.prior.outside(flat) / self.range
        hard = 2 * HARD * (outside != 0) / self.range
        matrix = rows.T @ rows + self.prior.precision
        matrix.diagonal().add_(hard / self.range)
        slope = rows.T @ (rest[active] / spreads[active]) + self.prior.precision @ (flat - self.prior.mean)
        slope = slope + hard * outside
        matrix[~free], matrix[:, ~free] = 0.0, 0.0
        matrix.diagonal()[~free] = 1.0
        factor = torch.linalg.cholesky(matrix)
        step = -torch.cholesky_solve((slope * free)[:, None], factor)[:, 0].view_as(picture)
        expected = float((torch.cholesky_inverse(factor).diagonal() * free / self.range.square()).mean().sqrt())
        before, share = self._value(picture, spreads), 1.0
        for _ in range(HALVES):
            if self._value(picture + share * step, spreads) < before:
                return picture + share * step, expected
            share /= 2
        return picture, expected

    def _value(self, picture: Tensor, spreads: Tensor) -> float:
        """Return the negative logarithm of the posterior."""
        with torch.no_grad():
            rest = self._made(picture)[0] - self._wanted
        rest = torch.where(self._firm, rest, rest.clamp(min=0))
        away, outside = picture.flatten() - self.prior.mean, self.prior.outside(picture.flatten()) / self.range
        value = (rest / spreads).square().sum() / 2 + away @ self.prior.precision @ away / 2
        return float(value + HARD * outside.square().sum())

    def _slopes(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return derivatives of all cells [M, P], what they are too large by [M], and which count [M]."""
        with torch.no_grad():
            own, columns = self._made(picture)[0], []
            steps = MOVED * self.range
            for units in torch.diag(steps).split(CHUNK):  # type: ignore[no-untyped-call]
                columns.append(self._made(picture + units.view(-1, *picture.shape[1:])) - own)
        slopes = torch.cat(columns).T / steps
        return slopes, own - self._wanted, self._firm | (own > self._wanted)

    def _made(self, pictures: Tensor) -> Tensor:
        return torch.cat([one.flatten(1) for one in self.frontier.inputs(pictures)], 1)

    @cached_property
    def _wanted(self) -> Tensor:
        return torch.cat([self.frontier.found.maps[one.name].values.flatten() for one in self.frontier.bends])

    @cached_property
    def _firm(self) -> Tensor:
        return torch.cat([self.frontier.found.maps[one.name].firm.flatten() for one in self.frontier.bends])
