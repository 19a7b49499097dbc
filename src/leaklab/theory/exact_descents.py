"""Exact descents at the theorem's rates, with the constants that its assumptions ask for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from leaklab.theory.convergence import SECOND_MOMENT, Constants
from leaklab.theory.quadratics import Course, Plan, Quadratics, descend
from leaklab.theory.shares import replaced


@dataclass(frozen=True)
class ExactDescents:
    """Descents on P problems, and what is known of each.

    Attributes:
        problem: the losses that the clients step on.
        shares: p of each problem, N numbers each.
        constants: of the losses L_k of each problem, before they are scaled; G^2 and Delta_1 are those of the descent.
        plan: how the clients trained.
        course: what was seen on the way.
    """

    problem: Quadratics
    shares: Sequence[tuple[float, ...]]
    constants: Sequence[Constants]
    plan: Plan
    course: Course


def exact_descents(
    losses: Quadratics, start: Tensor, participants: int, local_steps: int, steps: int, *, scaled: bool
) -> ExactDescents:
    """Return descents with rates of law U(0, 2 eta_t) and the appendix's eta_t.

    Args:
        losses: P problems with clients' losses L_k.
        start: W_1, [P, D].
        participants: K; below N for scaled or equal clients only.
        local_steps: E.
        steps: T.
        scaled: clients step on N p_k L_k and take the plain mean, eq. (9), at the rates for nu L and varsigma mu; else
            on L_k and take the weighted mean, eq. (16).
    """
    shares = [tuple(own) for own in losses.shares.tolist()]
    known = [_known(losses, place, participants, local_steps) for place in range(len(shares))]
    at_rates = [replaced(*both) if scaled else both[0] for both in zip(known, shares, strict=True)]
    rates = torch.tensor([[one.rate(step) for one in at_rates] for step in range(1, steps + 1)], dtype=torch.float64)
    plan = Plan(participants, local_steps, SECOND_MOMENT, rates)
    problem = losses.scaled() if scaled else losses
    course = descend(problem, plan, start)
    scales = len(shares[0]) * losses.shares if scaled else torch.ones_like(losses.shares)
    largest = (course.squares / scales.square()).amax(-1).tolist()
    constants = [
        replace(one, gradient_square=square, start_distance=distance)
        for one, square, distance in zip(known, largest, course.distances[0].tolist(), strict=True)
    ]
    return ExactDescents(problem, shares, constants, plan, course)


def _known(losses: Quadratics, place: int, participants: int, local_steps: int) -> Constants:
    return Constants(
        smoothness=float(losses.smoothness[place]),
        convexity=float(losses.convexity[place]),
        variances=tuple(losses.variances[place].tolist()),
        gradient_square=0.0,
        heterogeneity=float(losses.heterogeneity[place]),
        start_distance=0.0,
        participants=participants,
        local_steps=local_steps,
        perturbed=True,
    )
