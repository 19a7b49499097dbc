"""L-BFGS that never climbs: a step is shortened until the loss has fallen enough.

``lbfgs`` takes every step at full length, as the published attacks do. A posterior whose likelihood narrows from stage
to stage needs more care: after each narrowing the old step lengths are wrong by orders of magnitude.

Source: Nocedal, Wright, "Numerical Optimization", algorithm 3.1 (backtracking, with the sufficient decrease of
eq. 3.4) and section 7.2 (L-BFGS).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.attacks.search.lbfgs import BatchedLbfgs, LbfgsSettings
from leaklab.attacks.search.restarts import Objective

SUFFICIENT = 1e-4
"""Share of the decrease that the slope promises which a step has to bring."""
SHORTER = 0.3
"""Factor on a step that did not bring it."""
MOST_FAILURES = 12
"""Shortenings in a row after which a problem is left where it is; the step is then 5e-7 of what it was."""


class BacktrackingLbfgs(BatchedLbfgs):
    """T problems; a step is taken only where the loss falls enough, else it is tried again, shorter.

    The first step has length 1 at most, whatever the size of the gradient. Use as ``BatchedLbfgs``: ``point`` is where
    the next evaluation is due, ``best`` the last point that was taken, with the loss ``best_loss``.
    """

    def __init__(self, start: Tensor, history: int) -> None:
        super().__init__(start, LbfgsSettings(history=history))
        self._best = start.clone()
        self._failures = torch.zeros(len(start), dtype=torch.int64, device=start.device)

    @property
    def best(self) -> Tensor:
        """The last point that was taken: [T, n]; the start where no loss was finite."""
        return self._best

    @property
    def best_loss(self) -> Tensor:
        """Its loss: [T]; inf where no loss was finite."""
        return torch.where(self.iterations > 0, self._state.loss, torch.inf)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only (positions [T'])."""
        super().keep(rows)
        self._best, self._failures = self._best[rows], self._failures[rows]

    def restart(self, rows: Tensor, start: Tensor) -> None:
        """Put fresh problems, starting at ``start`` [len(rows), n], in the given rows."""
        super().restart(rows, start)
        self._best[rows], self._failures[rows] = start, 0

    def advance(self, loss: Tensor, gradient: Tensor, active: Tensor) -> None:
        """Take or shorten the step to ``point``, where ``loss`` [T] and ``gradient`` [T, n] were evaluated.

        Args:
            loss: [T].
            gradient: [T, n].
            active: [T] bool; the other rows stay as they are.
        """
        state, first = self._state, self._state.iterations == 0
        taken = active & self._falls(loss, gradient, first)
        state.iterations += taken
        direction = self._direction(gradient, taken, first)
        keep = taken[:, None]
        state.direction = torch.where(keep, direction, state.direction)
        state.gradient = torch.where(keep, gradient, state.gradient)
        state.loss = torch.where(taken, loss, state.loss)
        self._best = torch.where(keep, state.point, self._best)
        self._failures = torch.where(taken, 0, self._failures + active)
        state.length = torch.where(taken, self._first_length(), torch.where(active, SHORTER, 1.0) * state.length)
        state.stalled |= active & self._is_stuck(taken)
        state.point = self._best + torch.where(state.stalled, 0.0, state.length)[:, None] * state.direction

    def _falls(self, loss: Tensor, gradient: Tensor, first: Tensor) -> Tensor:
        """Tell where the loss is finite and low enough to take the step: [T]."""
        state = self._state
        promised = SUFFICIENT * state.length * (state.gradient * state.direction).sum(1)
        finite = loss.isfinite() & gradient.isfinite().all(1)
        return finite & (first | (loss <= state.loss + promised))

    def _first_length(self) -> Tensor:
        """Return the length to begin with: 1 with a known curvature, else that of a step of length 1 at most."""
        known = torch.diagonal(self._state.step_change, dim1=1, dim2=2).any(1)
        cautious = 1 / torch.linalg.vector_norm(self._state.gradient, dim=1)
        return torch.where(known, 1.0, cautious.clamp(max=1.0))

    def _is_stuck(self, taken: Tensor) -> Tensor:
        """Tell where nothing can be gained any more: the start is not finite, or the promise is below a rounding."""
        state = self._state
        promised = -(state.gradient * state.direction).sum(1)
        flat = promised <= torch.finfo(promised.dtype).eps * state.loss.abs()
        return (~taken & (state.iterations == 0)) | flat | (self._failures >= MOST_FAILURES)


@dataclass(frozen=True)
class Descent:
    """Where S problems ended.

    Attributes:
        points: [S, n], the lowest ones.
        losses: [S]; inf where none was finite.
        iterations: [S] steps that were taken.
        evaluations: [S].
        stalled: [S], whether it ended because nothing could be gained any more.
    """

    points: Tensor
    losses: Tensor
    iterations: Tensor
    evaluations: Tensor
    stalled: Tensor


def descend(objective: Objective, start: Tensor, rows: Tensor, evaluations: int, history: int) -> Descent:
    """Minimise the objective of S problems at once, each on its own.

    Args:
        objective: see ``Objective``.
        start: [S, n].
        rows: [S] trial of each problem.
        evaluations: largest number, after that of the start.
        history: pairs that are kept for the curvature.
    """
    optimiser = BacktrackingLbfgs(start, history)
    used = torch.zeros_like(rows)
    for moving in _rounds(optimiser, evaluations + 1):
        loss, gradient = objective(optimiser.point, rows)
        used += moving
        optimiser.advance(loss, gradient, moving)
    steps = (optimiser.iterations - 1).clamp(min=0)
    return Descent(optimiser.best, optimiser.best_loss, steps, used, optimiser.stalled)


def _rounds(optimiser: BatchedLbfgs, most: int) -> Iterator[Tensor]:
    """Yield which problems are still moving, as long as there are any."""
    for _ in range(most):
        moving = ~optimiser.stalled
        if not bool(moving.any()):
            return
        yield moving
