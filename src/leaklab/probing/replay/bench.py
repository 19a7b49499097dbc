"""Where hypotheses are run, and their numbers fitted by least squares."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time

import torch
from torch import Tensor

from leaklab.probing.replay.mistake import Hypothesis, Numbers, Setting, changed
from leaklab.probing.replay.target import Target
from leaklab.records.errors import UserError

ROUNDS = 20
"""Steps of a fit."""
STEP = 1e-2
"""Relative step of a difference quotient, at first; it shrinks with the fit's own steps."""
FINEST = 1e-4
DAMPINGS = (1e-12, 0.1, 1.0, 10.0)
"""What is added to the squared slopes, each scaled to 1, until a step is better (Levenberg, Marquardt)."""
WORTH = 0.95
"""A fit goes on while a step leaves less than this of the distance."""
POOR = 3
"""Such steps."""
KEPT = 600
"""Replays that are kept in memory."""
REFUSED = (UserError, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)
"""What networks, losses and optimizers raise on a change that does not fit them."""


@dataclass(frozen=True)
class Fit:
    """A hypothesis with its numbers, and what it leaves.

    Attributes:
        hypothesis: mistakes and numbers.
        flat: the directions that it would have sent, of the compared entries.
        error: relative distance from what was sent.
        aligned: the same after the best factor.
    """

    hypothesis: Hypothesis
    flat: Tensor
    error: float
    aligned: float

    @property
    def numbers(self) -> int:
        """How many numbers were fitted."""
        return sum(len(numbers) for _, numbers in self.hypothesis)

    def says(self) -> str:
        """Return the mistakes in words."""
        return " and ".join(mistake.phrase(numbers) for mistake, numbers in self.hypothesis)


class Bench:
    """Runs a setting under hypotheses and compares with a target until its time of processor is over."""

    def __init__(self, setting: Setting, target: Target, until: float) -> None:
        self.setting, self.target, self.until = setting, target, until
        self.runs = 0
        self._kept: dict[tuple[object, ...], Tensor | None] = {}

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return thread_time() > self.until

    def directions(self, hypothesis: Hypothesis, target: Target | None = None) -> Tensor | None:
        """Return what a hypothesis would have sent, of the target's entries; None where it cannot be run."""
        aim = self.target if target is None else target
        running = tuple(made for made in hypothesis if made[0].change is not None)
        key = (id(aim), running)
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = self._run(running, aim)
        flat = self._kept[key]
        if flat is None:
            return None
        for mistake, numbers in hypothesis:
            if mistake.sends is not None:
                flat = mistake.sends(flat, numbers)
        return flat

    def _run(self, hypothesis: Hypothesis, target: Target) -> Tensor | None:
        self.runs += 1
        try:
            setting = changed(self.setting, hypothesis)
            flat = target.flat(setting.client.round(setting.inputs, setting.targets))
        except REFUSED:
            return None
        return flat if bool(flat.isfinite().all()) else None

    def fit(self, hypothesis: Hypothesis) -> Fit | None:
        """Return a hypothesis as it stands; None where it cannot be run."""
        flat = self.directions(hypothesis)
        if flat is None:
            return None
        return Fit(hypothesis, flat, self.target.error(flat), self.target.aligned(flat))

    def refined(self, fit: Fit, stop: float = 1e-7, step: float = STEP) -> Fit:
        """Return a fit whose numbers were improved by least squares (damped Gauss-Newton).

        Args:
            fit: to begin with.
            stop: error at which it is good enough.
            step: relative step of the first difference quotients.
        """
        if not fit.numbers:
            return fit
        poor = 0
        for _ in range(ROUNDS):
            if self.over or fit.error <= stop:
                break
            slopes = self._slopes(fit, step)
            if slopes is None:
                break
            better = self._stepped(fit, slopes)
            if better is None:
                break
            # a quotient over a kink, e.g. of a ReLU, is wrong once: only some poor steps one after the other end a fit
            poor = 0 if better.error < WORTH * fit.error else poor + 1
            step = max(FINEST, 0.1 * step if poor else min(step, 0.1 * _change(fit, better)))
            fit = better
            if poor == POOR:
                break
        return fit

    def _slopes(self, fit: Fit, step: float) -> Tensor | None:
        """Return the change of the directions with each number, [P, numbers]."""
        values, columns = _values(fit.hypothesis), []
        for place, value in enumerate(values):
            size = step * (abs(value) or 0.1)
            moved = [*values]
            moved[place] = value + size
            flat = self.directions(_with(fit.hypothesis, moved, bounded=False))
            if flat is None:
                return None
            columns.append((flat - fit.flat) / size)
        return torch.stack(columns, 1)

    def _stepped(self, fit: Fit, slopes: Tensor) -> Fit | None:
        """Return the best fit on the way that least squares say; None where none is better."""
        left = self.target.sent - fit.flat
        size = slopes.norm(dim=0).clamp_min(1e-300)
        scaled = slopes / size
        gram, right = scaled.T @ scaled, scaled.T @ left
        values = _values(fit.hypothesis)
        for damping in DAMPINGS:
            damped = gram + damping * torch.eye(len(size), dtype=slopes.dtype, device=slopes.device)
            way = (torch.linalg.solve(damped, right) / size).tolist()
            moved = [value + change for value, change in zip(values, way, strict=True)]
            tried = self.fit(_with(fit.hypothesis, moved))
            if tried is not None and tried.error < fit.error:
                return tried
        return None


def _values(hypothesis: Hypothesis) -> list[float]:
    return [number for _, numbers in hypothesis for number in numbers]


def _change(one: Fit, other: Fit) -> float:
    """Return the largest relative change of a number."""
    pairs = zip(_values(one.hypothesis), _values(other.hypothesis), strict=True)
    return max((abs(a - b) / (abs(a) or 0.1) for a, b in pairs), default=0.0)


def _with(hypothesis: Hypothesis, values: Sequence[float], bounded: bool = True) -> Hypothesis:
    """Return a hypothesis with other numbers, held within their bounds."""
    made, place = [], 0
    for mistake, numbers in hypothesis:
        own: Numbers = tuple(values[place : place + len(numbers)])
        if bounded:
            own = tuple(min(max(value, mistake.low), mistake.high) for value in own)
        made.append((mistake, own))
        place += len(numbers)
    return tuple(made)
