"""The picture behind the first stage: a rough one to begin with, and the one that makes a closed stage's input.

Max pooling sends an error to one of its places, so that the gradient jumps with every winner and the truth has no
basin. The rough picture is sought with soft winners, by a softmax that sharpens; head and outputs are exact already.

With the second stage's input a known, each active cell of the first pool says that one of its places is a and none is
above. Which one is a mixture, narrowed while it is fitted (expectation and maximisation): shares of the places by their
shortfall at width s, then the picture by least squares under the prior. The kernels' gradient enters with the shares,
each filter as exact as it was in the last turn; trusted more, wrong shares would lead. Cells are weighed at random, as
in ``closing``.

Sources: maximum a posteriori and narrowing as in ``annealed``; mixtures by turns, "Maximum Likelihood from Incomplete
Data via the EM Algorithm" (Dempster, Laird, Rubin).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from leaklab.attacks.pooling.closing import Closing, choices_of
from leaklab.attacks.pooling.stages import Stage, Taken
from leaklab.attacks.search.backtracking import descend
from leaklab.attacks.search.restarts import Objective
from leaklab.records.streams import Stream

LADDER = ((3.0, 0.1), (9.5, 0.045), (30.0, 0.02))
"""Sharpness of the softmax, in units of the outputs' size, and relative error of what is matched."""
SOFT_BOX, HARD_BOX = 100.0, 1e4
HISTORY = 40
PASSES, AGAIN, LAST_PASS = ((1.0, 1e-3), (0.3, 1e-4)), ((0.3, 1e-2), (0.1, 1e-4)), (1e-3, 1e-5)
"""Widths of the mixture at first and at last, relative to the deviation of a: of a start, of one that goes on from the
best picture, and of the end of both."""
SHAKE = 0.5
LEAST_ERROR = 1e-4
"""Relative error of a filter's gradient below which it is not trusted more."""
NEARLY = 1e-6
"""Variance that every pixel has besides, relative to the mean: a prior of few components has a precision too."""


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """What the attacker believes of a picture as the first convolution takes it, N(mean, F F^T), pixels in a range.

    Attributes:
        mean: [P].
        factor: F, [P, d].
        low: smallest value of each pixel, [P].
        high: largest, [P].
    """

    mean: Tensor
    factor: Tensor
    low: Tensor
    high: Tensor

    def pictures(self, latents: Tensor) -> Tensor:
        """Return the pictures [S, P] of latents [S, d]."""
        return self.mean + latents @ self.factor.T

    def outside(self, pictures: Tensor) -> Tensor:
        """Return how far pixels leave their range, same shape, with a sign."""
        return pictures - pictures.clamp(self.low, self.high)

    @cached_property
    def precision(self) -> Tensor:
        """The inverse of the covariance, [P, P]."""
        covariance = self.factor @ self.factor.T
        covariance.diagonal().add_(NEARLY * float(covariance.diagonal().mean()))
        inverse: Tensor = torch.linalg.inv(covariance)
        return inverse


def rough(taken: Taken, prior: GaussianPrior, latents: Tensor, evaluations: int) -> Tensor:
    """Return the latents of a rough picture, [1, d], by soft winners that sharpen in stages.

    Args:
        taken: a network taken apart.
        prior: of the picture.
        latents: start, [1, d].
        evaluations: of each stage.
    """
    rows = torch.zeros(1, dtype=torch.int64, device=latents.device)
    for sharpness, error in LADDER:
        latents = descend(_soft(taken, prior, sharpness, error), latents, rows, evaluations, HISTORY).points
    return latents


def first_output(taken: Taken, picture: Tensor) -> Tensor:
    """Return the first stage's output for a picture [P], [I, H, W] of the second."""
    first, second = taken.stages
    return choices_of(first, picture.view(first.shape)).amax(-1).clamp(min=0).view(second.shape)


def _soft(taken: Taken, prior: GaussianPrior, sharpness: float, error: float) -> Objective:
    """Return the negative logarithm of the posterior of latents, as an ``Objective``."""
    (first, second), (outer, inner) = taken.stages, taken.gradients
    sharp = sharpness / float(taken.values[taken.errors != 0].square().mean().sqrt())

    def term(made: Tensor, seen: Tensor) -> Tensor:
        return (made - seen).square().flatten(1).sum(1) / (2 * error**2 * seen.square().mean())

    def objective(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        latents = points.detach().requires_grad_()
        with torch.enable_grad():
            pictures = prior.pictures(latents)
            patches = first.patches(pictures.view(-1, *first.shape))
            near = first.choices(first.maps(patches))
            pooled = near.amax(-1)
            deep = second.patches(pooled.clamp(min=0).view(-1, *second.shape))
            far = second.choices(second.maps(deep))
            at = second.sent_to(torch.softmax(sharp * far, -1), taken.errors)
            back = second.overlaid(second.weight.T @ at).view_as(pooled) * torch.sigmoid(4 * sharp * pooled)
            at_first = first.sent_to(torch.softmax(sharp * near, -1), back)
            loss = term(at @ deep.transpose(1, 2), inner.weight) + term(far.amax(-1).clamp(min=0), taken.values)
            loss = loss + term(at_first @ patches.transpose(1, 2), outer.weight)
            if outer.bias is not None:
                loss = loss + term(at_first.sum(-1), outer.bias)
            loss = loss + latents.square().sum(1) / 2 + SOFT_BOX * prior.outside(pictures).square().sum(1)
            (slope,) = torch.autograd.grad(loss.sum(), latents)
        return loss.detach(), slope

    return objective


@dataclass(frozen=True, eq=False)
class FirstStage:
    """What is known of the first stage once the second is closed.

    Attributes:
        stage: the first.
        gradient: of its kernels, [O, K].
        outputs: a of each cell, [O, N]; 0 where it is quiet.
        errors: the loss's derivative for it, [O, N]; not masked where the output is not known.
        known: cells whose output is known, [O, N].
    """

    stage: Stage
    gradient: Tensor
    outputs: Tensor
    errors: Tensor
    known: Tensor

    @classmethod
    def behind(cls, taken: Taken, closing: Closing, quiet: float) -> "FirstStage":
        """Return the first stage behind a closing.

        Args:
            taken: a network taken apart.
            closing: of its second stage.
            quiet: share of the largest output below which a cell counts as 0.
        """
        first, second = taken.stages
        at = second.of_winners(closing.winners, taken.errors)
        errors = second.overlaid((second.weight.T @ at)[None])[0].flatten(1)
        known = closing.known.flatten().expand_as(errors)
        outputs = closing.inputs.flatten(1)
        active = outputs > quiet * outputs[known].max()
        return cls(
            first, taken.gradients[0].weight, outputs * active, torch.where(known, errors * active, errors), known
        )

    def misfit(self, picture: Tensor) -> float:
        """Return how far a picture [P] is from making the known outputs, relative to them."""
        found = choices_of(self.stage, picture.view(self.stage.shape)).amax(-1).clamp(min=0)
        return float(((found - self.outputs) * self.known).norm() / (self.outputs * self.known).norm())

    def gradient_misfit(self, picture: Tensor) -> float:
        """Return how far a picture [P] is from making the kernels' gradient with hard winners, relative to it."""
        image = picture.view(self.stage.shape)
        choices = choices_of(self.stage, image)
        errors = torch.where(self.known, self.errors, self.errors * (choices.amax(-1) > 0))
        made = self.stage.of_winners(choices.argmax(-1), errors) @ self.stage.patches(image[None])[0].T
        return float((made - self.gradient).norm() / self.gradient.norm())


class Mixture:
    """Turns of shares and least squares for one picture.

    Args:
        first: what is known.
        prior: of the picture.
    """

    def __init__(self, first: FirstStage, prior: GaussianPrior) -> None:
        self.first, self.prior = first, prior
        stage, pixels = first.stage, len(prior.mean)
        sources = stage.sources.T
        self._pairs = (sources[:, :, None] * (pixels + 1) + sources[:, None, :]).flatten()
        self._squares = (stage.weight[:, :, None] * stage.weight[:, None, :]).flatten(1)
        self._belief = prior.precision @ prior.mean

    def passed(
        self, picture: Tensor, widths: tuple[float, float], turns: int, draws: Stream | None
    ) -> tuple[Tensor, float]:
        """Return the best picture [P] of some turns, and its misfit.

        Args:
            picture: to begin with, [P].
            widths: of the mixture at first and at last, see ``PASSES``.
            turns: how many.
            draws: for the weights of cells; None weighs all alike.
        """
        best, lowest = picture, self.first.misfit(picture)
        unit = float(self.first.outputs[(self.first.outputs > 0) & self.first.known].std())
        for width in np.geomspace(*widths, turns).tolist():
            matrix, right = self._normal(picture, width * unit, draws)
            picture = torch.cholesky_solve(right[:, None], torch.linalg.cholesky(matrix))[:, 0]
            misfit = self.first.misfit(picture)
            if misfit < lowest:
                best, lowest = picture, misfit
        return best, lowest

    def expected_error(self, picture: Tensor, width: float) -> float:
        """Return the root mean square error of pixels that equations of this relative width and the prior leave."""
        unit = float(self.first.outputs[self.first.known].max())
        matrix, _ = self._normal(picture, width * unit, None)
        return float(torch.linalg.inv(matrix).diagonal().mean().sqrt())

    def _normal(self, picture: Tensor, width: float, draws: Stream | None) -> tuple[Tensor, Tensor]:
        """Return the normal equations of one turn, [P, P] and [P]."""
        first, prior, stage = self.first, self.prior, self.first.stage
        choices = choices_of(stage, picture.view(stage.shape))
        short = first.outputs[..., None] - choices
        shares = torch.softmax(-(short**2) / (2 * width**2), -1)
        weights = shares * (first.outputs > 0)[..., None]
        if draws is not None:
            drawn = draws.uniform(*first.outputs.shape).to(picture).clamp(min=1e-12)
            weights = weights * ((-drawn.log()) ** SHAKE)[..., None]
        # none of the places is above the output, whoever won
        weights = (weights + (short < 0)) * first.known[..., None] / width**2
        matrix, right = self._of_values(weights)
        of_gradient, of_target = self._of_gradient(picture, shares, choices)
        outside = prior.outside(picture)
        matrix += of_gradient + prior.precision + torch.diag(2 * HARD_BOX * (outside != 0))
        return matrix, right + of_target + self._belief + 2 * HARD_BOX * (outside != 0) * (picture - outside)

    def _of_values(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum of weights [O, N, P] times (kernel * patch + bias - output)^2 as normal equations."""
        stage, pixels = self.first.stage, len(self.prior.mean)
        ones = torch.ones_like(self.first.outputs)
        summed = stage.sent_to(weights, ones)
        sides = stage.sent_to(weights * self.first.outputs[..., None], ones) - summed * stage.bias[:, None]
        matrix = summed.new_zeros((pixels + 1) ** 2).index_add_(0, self._pairs, (summed.T @ self._squares).flatten())
        right = summed.new_zeros(pixels + 1)
        right.index_add_(0, stage.sources.T.flatten(), (sides.T @ stage.weight).flatten())
        return matrix.view(pixels + 1, -1)[:-1, :-1].clone(), right[:-1]

    def _of_gradient(self, picture: Tensor, shares: Tensor, choices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the kernels' gradient at soft winners as normal equations, filters by their present errors."""
        first, stage = self.first, self.first.stage
        errors = torch.where(first.known, first.errors, first.errors * (choices.amax(-1) > 0))
        rows, target = stage.gradient_rows(stage.sent_to(shares, errors)), stage.by_channel(first.gradient)
        entries = len(rows) // len(errors)
        rest = (rows @ picture.view(target.shape[1], -1).T - target).view(len(errors), entries, -1)
        noise = rest.square().mean((1, 2)) + LEAST_ERROR**2 * target.square().mean()
        weighted = rows / noise.repeat_interleave(entries)[:, None]
        gram = torch.kron(torch.eye(target.shape[1]).to(rows), weighted.T @ rows)
        return gram, (weighted.T @ target).T.flatten()
