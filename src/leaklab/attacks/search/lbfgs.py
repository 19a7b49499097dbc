"""L-BFGS for many independent problems at once, following ``torch.optim.LBFGS`` (no line search) step for step.

Two facts make it fast and keep it faithful:

* Without a line search the optimiser is one uninterrupted sequence of iterations; its outer steps only group them
  (20 by default, fewer when a tolerance is met). So each trial keeps its own place, all take one iteration per
  evaluation, and none waits for another's outer step to end. If an outer step begins where no step can be taken
  (gradient or slope below tolerance) every later one would do the same: the trial has stalled.
* The direction is the compact form of the two-loop recursion (Byrd, Nocedal, Schnabel 1994, "Representations of
  quasi-Newton matrices", eq. 3.1): the history is read twice per iteration and everything else is m x m.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

SMALLEST_CURVATURE = 1e-10
"""Pairs with y.s below this are not stored (as in ``torch.optim.LBFGS``)."""


@dataclass(frozen=True)
class LbfgsSettings:
    """The settings of ``torch.optim.LBFGS``, with its defaults for history and tolerances."""

    rate: float = 1.0
    history: int = 100
    max_iter: int = 20
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9


@dataclass
class _State:
    """Per trial: what ``torch.optim.LBFGS`` keeps in its ``state``, and the Gram matrices of the compact form."""

    point: Tensor  # [T, n]
    direction: Tensor  # [T, n]
    gradient: Tensor  # [T, n], of the previous iteration
    loss: Tensor  # [T], of the previous iteration
    steps: Tensor  # [T, m, n], ring of s
    changes: Tensor  # [T, m, n], ring of y
    step_change: Tensor  # [T, m, m], s_i . y_j
    change_change: Tensor  # [T, m, m], y_i . y_j
    diagonal: Tensor  # [T], H_0
    length: Tensor  # [T], t
    head: Tensor  # [T], next ring place
    iterations: Tensor  # [T]
    inner: Tensor  # [T], iterations of the running outer step
    outer: Tensor  # [T], finished outer steps
    stalled: Tensor  # [T] bool


class BatchedLbfgs:
    """T problems of n unknowns, advanced by one evaluation at a time.

    Use: evaluate loss and gradient at ``point``, call ``advance``, repeat.
    """

    def __init__(self, start: Tensor, settings: LbfgsSettings) -> None:
        self.settings = settings
        self._filled = 0
        self._state = _fresh(start, settings.history)

    @property
    def point(self) -> Tensor:
        """Where the next evaluation is due: [T, n]."""
        return self._state.point

    @property
    def outer(self) -> Tensor:
        """Finished outer steps of each trial: [T]."""
        return self._state.outer

    @property
    def iterations(self) -> Tensor:
        """Iterations of each trial: [T]."""
        return self._state.iterations

    @property
    def stalled(self) -> Tensor:
        """Trials that cannot move any more: [T] bool."""
        return self._state.stalled

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only (positions [T'])."""
        self._state = _State(**{f.name: getattr(self._state, f.name)[rows] for f in fields(_State)})

    def restart(self, rows: Tensor, start: Tensor) -> None:
        """Put fresh problems, starting at ``start`` [len(rows), n], in the given rows."""
        fresh = _fresh(start, self.settings.history)
        for field in fields(_State):
            getattr(self._state, field.name)[rows] = getattr(fresh, field.name)

    def state(self) -> dict[str, Tensor]:
        """Return all that ``go_on`` needs, by name."""
        return {**vars(self._state), "filled": torch.tensor(self._filled)}

    def go_on(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state, on the device where it is to go on."""
        self._state = _State(**{f.name: state[f.name] for f in fields(_State)})
        self._filled = int(state["filled"])

    def advance(self, loss: Tensor, gradient: Tensor, active: Tensor) -> None:
        """Take one iteration from ``point``, where ``loss`` [T] and ``gradient`` [T, n] were evaluated.

        Args:
            loss: [T].
            gradient: [T, n].
            active: [T] bool; the other rows stay as they are.
        """
        state = self._state
        small = gradient.abs().amax(1) <= self.settings.tolerance_grad
        self._close_outer_step(loss, small, active)
        state.stalled |= active & small
        active = active & ~small
        first = state.iterations == 0
        state.iterations += active
        direction = self._direction(gradient, active, first)
        keep = active[:, None]
        state.direction = torch.where(keep, direction, state.direction)
        state.gradient = torch.where(keep, gradient, state.gradient)
        state.loss = torch.where(active, loss, state.loss)
        cautious = torch.clamp(1 / gradient.abs().sum(1), max=1.0) * self.settings.rate
        length = torch.where(first, cautious, torch.full_like(cautious, self.settings.rate))
        state.length = torch.where(active, length, state.length)
        flat = (gradient * state.direction).sum(1) > -self.settings.tolerance_change
        state.stalled |= active & flat
        moving = active & ~flat
        state.inner += moving
        step = state.length[:, None] * state.direction
        state.point = torch.where(moving[:, None], state.point + step, state.point)

    def _close_outer_step(self, loss: Tensor, small: Tensor, active: Tensor) -> None:
        """End the outer steps that ``torch.optim.LBFGS`` would have ended after the last move."""
        state, settings = self._state, self.settings
        moved = (state.length[:, None] * state.direction).abs().amax(1)
        little = (moved <= settings.tolerance_change) | ((loss - state.loss).abs() < settings.tolerance_change)
        ended = active & (state.inner > 0) & (small | little | (state.inner >= settings.max_iter))
        state.outer += ended
        state.inner = torch.where(ended, torch.zeros_like(state.inner), state.inner)

    def _direction(self, gradient: Tensor, active: Tensor, first: Tensor) -> Tensor:
        """Store the last pair and return -H g, [T, n]."""
        state = self._state
        step = state.length[:, None] * state.direction
        change = gradient - state.gradient
        curvature = (change * step).sum(1)
        stored = active & ~first & (curvature > SMALLEST_CURVATURE)
        rows = stored.nonzero()[:, 0]
        place = state.head[rows]
        if len(rows) > 0:
            state.steps[rows, place] = step[rows]
            state.changes[rows, place] = change[rows]
            squared = (change * change).sum(1)
            state.diagonal = torch.where(stored, curvature / squared, state.diagonal)
            state.head = torch.where(stored, (state.head + 1) % self.settings.history, state.head)
            self._filled = max(self._filled, int(place.max()) + 1)
        if self._filled == 0:
            return -gradient
        # first pass over the history; this operand order is the fast one
        vectors = torch.stack([gradient, change, step], 1)
        with_steps = torch.bmm(vectors, state.steps[:, : self._filled].transpose(1, 2))
        with_changes = torch.bmm(vectors, state.changes[:, : self._filled].transpose(1, 2))
        self._update_gram(rows, place, with_steps, with_changes)
        newton = self._times_inverse_hessian(gradient, with_steps[:, 0], with_changes[:, 0])
        return torch.where(first[:, None], -gradient, -newton)

    def _update_gram(self, rows: Tensor, place: Tensor, with_steps: Tensor, with_changes: Tensor) -> None:
        state, filled = self._state, slice(0, self._filled)
        state.step_change[rows, filled, place] = with_steps[rows, 1]
        state.step_change[rows, place, filled] = with_changes[rows, 2]
        state.change_change[rows, filled, place] = with_changes[rows, 1]
        state.change_change[rows, place, filled] = with_changes[rows, 1]

    def _times_inverse_hessian(self, gradient: Tensor, step_gradient: Tensor, change_gradient: Tensor) -> Tensor:
        """Return H g in the compact form; empty ring places count as zero pairs, which have no effect."""
        state, filled = self._state, self._filled
        order = self._oldest_first()
        step_gradient, change_gradient = (v.gather(1, order)[:, :, None] for v in (step_gradient, change_gradient))
        step_change, change_change = _reordered(state.step_change, order), _reordered(state.change_change, order)
        curvature = torch.diagonal(step_change, dim1=1, dim2=2)
        upper = torch.triu(step_change) + torch.diag_embed((curvature == 0).to(gradient.dtype))
        scale = state.diagonal[:, None, None]
        inner = torch.linalg.solve_triangular(upper, step_gradient, upper=True)
        middle = curvature[:, :, None] * inner + scale * (torch.bmm(change_change, inner) - change_gradient)
        outer = torch.linalg.solve_triangular(upper.transpose(1, 2), middle, upper=False)
        on_steps = torch.zeros_like(outer[:, :, 0]).scatter(1, order, outer[:, :, 0])
        on_changes = torch.zeros_like(on_steps).scatter(1, order, (scale * inner)[:, :, 0])
        from_history = torch.bmm(on_steps[:, None], state.steps[:, :filled])
        from_history = from_history - torch.bmm(on_changes[:, None], state.changes[:, :filled])
        return state.diagonal[:, None] * gradient + from_history[:, 0]

    def _oldest_first(self) -> Tensor:
        """Return the ring places of the pairs in the order of their age, oldest first: [T, filled]."""
        places = torch.arange(self._filled, device=self._state.head.device)
        # rings that are not full have their empty places in front or behind, where zero pairs do no harm
        return (self._state.head[:, None] + places) % self._filled


def _fresh(start: Tensor, history: int) -> _State:
    trials, unknowns = start.shape
    zeros = start.new_zeros
    counters = [torch.zeros(trials, dtype=torch.int64, device=start.device) for _ in range(4)]
    return _State(
        point=start.clone(),
        direction=zeros(trials, unknowns),
        gradient=zeros(trials, unknowns),
        loss=zeros(trials),
        steps=zeros(trials, history, unknowns),
        changes=zeros(trials, history, unknowns),
        step_change=zeros(trials, history, history),
        change_change=zeros(trials, history, history),
        diagonal=start.new_ones(trials),
        length=start.new_ones(trials),
        head=counters[0],
        iterations=counters[1],
        inner=counters[2],
        outer=counters[3],
        stalled=torch.zeros(trials, dtype=torch.bool, device=start.device),
    )


def _reordered(matrix: Tensor, order: Tensor) -> Tensor:
    filled = order.shape[1]
    rows = matrix[:, :filled, :filled].gather(1, order[:, :, None].expand(-1, -1, filled))
    return rows.gather(2, order[:, None, :].expand(-1, filled, -1))
